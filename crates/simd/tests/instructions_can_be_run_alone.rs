//! The instruction timers run exactly the instructions that the CPU has, as often as they say.

use ibid_simd::{Backend, Instruction};

#[test]
fn whatever_a_backend_needs_can_be_run() {
    let wide = Backend::available().any(|backend| backend.name() == "avx2");
    for instruction in Instruction::ALL {
        let runs = instruction.chain(3);
        assert_eq!(instruction.spread(3), runs);
        assert!(runs || !wide, "{}", instruction.name());
        // Zero rounds must run none, and not wrap around to all.
        assert_eq!((instruction.chain(0), instruction.spread(0)), (runs, runs));
    }
}
