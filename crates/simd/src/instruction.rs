//! Single instructions, repeated, so that a program with a clock can measure what they cost
//! (*Vectorized Sequence-Based Chunking*, section V: popcnt, pdep and tzcnt differ between CPUs).

/// An instruction on 64 bits that kernels use, or a yardstick for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Addition: a latency of one cycle on every CPU, the yardstick for the others.
    Add,
    /// Counts the bits that are set.
    Popcnt,
    /// Deposits bits where a mask has ones; here half of its bits are set.
    Pdep,
    /// Extracts the bits where the same mask has ones.
    Pext,
    /// Counts the zeros below the lowest bit that is set.
    Tzcnt,
}

impl Instruction {
    /// All instructions, [`Instruction::Add`] first.
    pub const ALL: [Instruction; 5] = [
        Instruction::Add,
        Instruction::Popcnt,
        Instruction::Pdep,
        Instruction::Pext,
        Instruction::Tzcnt,
    ];

    /// How many instructions [`Instruction::chain`] and [`Instruction::spread`] run for each round.
    pub const PER_ROUND: u64 = 16;

    /// Returns its mnemonic.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Instruction::Add => "add",
            Instruction::Popcnt => "popcnt",
            Instruction::Pdep => "pdep",
            Instruction::Pext => "pext",
            Instruction::Tzcnt => "tzcnt",
        }
    }

    /// Runs [`Instruction::PER_ROUND`] of them for each of `rounds`, each waiting for the one
    /// before. The time that one takes is its latency. Returns false, and runs none, on CPUs
    /// without the instruction.
    ///
    /// ```
    /// use ibid_simd::Instruction;
    ///
    /// let start = std::time::Instant::now();
    /// if Instruction::Popcnt.chain(1000) {
    ///     let count = 1000 * Instruction::PER_ROUND as u32;
    ///     println!("{:?} from one to the next", start.elapsed() / count);
    /// }
    /// ```
    #[must_use]
    pub fn chain(self, rounds: u64) -> bool {
        run::chain(self, rounds)
    }

    /// Runs as many as [`Instruction::chain`], each waiting only for the eighth before it. The time
    /// that one takes is its cost when the CPU has other work meanwhile.
    #[must_use]
    pub fn spread(self, rounds: u64) -> bool {
        run::spread(self, rounds)
    }
}

#[cfg(target_arch = "x86_64")]
mod run {
    use core::arch::asm;

    use super::Instruction;

    /// Every other bit, the most runs that a mask can have.
    const MASK: u64 = 0x5555_5555_5555_5555;

    #[cfg(feature = "std")]
    fn is_present(instruction: Instruction) -> bool {
        match instruction {
            Instruction::Add => true,
            Instruction::Popcnt => std::arch::is_x86_feature_detected!("popcnt"),
            Instruction::Pdep | Instruction::Pext => std::arch::is_x86_feature_detected!("bmi2"),
            Instruction::Tzcnt => std::arch::is_x86_feature_detected!("bmi1"),
        }
    }

    #[cfg(not(feature = "std"))]
    fn is_present(instruction: Instruction) -> bool {
        match instruction {
            Instruction::Add => true,
            Instruction::Popcnt => cfg!(target_feature = "popcnt"),
            Instruction::Pdep | Instruction::Pext => cfg!(target_feature = "bmi2"),
            Instruction::Tzcnt => cfg!(target_feature = "bmi1"),
        }
    }

    /// Repeats the eight lines twice in each round.
    macro_rules! repeat {
        ($rounds:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr, $g:expr, $h:expr) => {
            // SAFETY: the instruction was found on this CPU (`is_present`); it reads and writes the
            // registers named here and the flags, and no memory. `rounds` is at least 1.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2: /* {mask} */",
                    $a, $b, $c, $d, $e, $f, $g, $h,
                    $a, $b, $c, $d, $e, $f, $g, $h,
                    "dec {rounds}",
                    "jnz 2b",
                    rounds = inout(reg) $rounds => _,
                    mask = in(reg) MASK,
                    inout("rax") MASK => _, inout("rcx") MASK => _, inout("rdx") MASK => _, inout("rsi") MASK => _,
                    inout("r8") MASK => _, inout("r9") MASK => _, inout("r10") MASK => _, inout("r11") MASK => _,
                    options(nomem, nostack)
                );
            }
        };
    }

    macro_rules! chained {
        ($rounds:expr, $line:literal) => {
            repeat!($rounds, $line, $line, $line, $line, $line, $line, $line, $line)
        };
    }

    macro_rules! spread {
        ($rounds:expr, $name:literal, $last:literal) => {
            repeat!(
                $rounds,
                concat!($name, " rax, rax", $last),
                concat!($name, " rcx, rcx", $last),
                concat!($name, " rdx, rdx", $last),
                concat!($name, " rsi, rsi", $last),
                concat!($name, " r8, r8", $last),
                concat!($name, " r9, r9", $last),
                concat!($name, " r10, r10", $last),
                concat!($name, " r11, r11", $last)
            )
        };
    }

    pub(super) fn chain(instruction: Instruction, rounds: u64) -> bool {
        if rounds > 0 && is_present(instruction) {
            match instruction {
                Instruction::Add => chained!(rounds, "add rax, {mask}"),
                Instruction::Popcnt => chained!(rounds, "popcnt rax, rax"),
                Instruction::Pdep => chained!(rounds, "pdep rax, rax, {mask}"),
                Instruction::Pext => chained!(rounds, "pext rax, rax, {mask}"),
                Instruction::Tzcnt => chained!(rounds, "tzcnt rax, rax"),
            }
        }
        is_present(instruction)
    }

    pub(super) fn spread(instruction: Instruction, rounds: u64) -> bool {
        if rounds > 0 && is_present(instruction) {
            match instruction {
                // `add rax, rax` doubles, which is the same work.
                Instruction::Add => spread!(rounds, "add", ""),
                Instruction::Popcnt => spread!(rounds, "popcnt", ""),
                Instruction::Pdep => spread!(rounds, "pdep", ", {mask}"),
                Instruction::Pext => spread!(rounds, "pext", ", {mask}"),
                Instruction::Tzcnt => spread!(rounds, "tzcnt", ""),
            }
        }
        is_present(instruction)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod run {
    use super::Instruction;

    pub(super) fn chain(_: Instruction, _: u64) -> bool {
        false
    }

    pub(super) fn spread(_: Instruction, _: u64) -> bool {
        false
    }
}
