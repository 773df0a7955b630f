//! The rules of the protocol, each of which a simulation can leave out, to see that it notices.

/// A rule of the protocol that `docs/prune.md` explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(not(feature = "simulation"), allow(unreachable_pub))]
pub enum Rule {
    /// A backup stores its session before it reads the log and the index.
    SessionFirst = 1,
    /// A session that is still open is ended by a void file, and its backup notices.
    Fence,
    /// A backup that was ended stores again what is gone.
    WalkAgain,
    /// What condemned packs have is looked for again before they are doomed.
    MarkAgain,
    /// Sessions that were open are waited for.
    Seen,
    /// To a backup, condemned packs are missing.
    CondemnedIsMissing,
    /// Frames of packs that stay keep their bases.
    BasesStay,
    /// Index files from before the fence count only if they were verified.
    Trust,
    /// Frames that no trusted index file lists count only if their bases are there.
    Closure,
    /// A reader that misses a pack looks again.
    Reload,
    /// A keeper who prunes the files of a writer believes no index file that the writer has signed.
    Doubt,
    /// A keeper who prunes the files of a writer compares what the writer has signed with its ids.
    Verify,
    /// Packs that others have stored are durable before anything relies on them.
    DurablePacks,
}

#[cfg(feature = "simulation")]
static LEFT_OUT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Leaves out a rule in this process, or none. For simulations alone: without any of them data is lost.
#[cfg(feature = "simulation")]
pub fn leave_out(rule: Option<Rule>) {
    LEFT_OUT.store(rule.map_or(0, |rule| rule as u8), std::sync::atomic::Ordering::Relaxed);
}

/// Returns whether a rule holds.
#[cfg(feature = "simulation")]
pub(crate) fn holds(rule: Rule) -> bool {
    LEFT_OUT.load(std::sync::atomic::Ordering::Relaxed) != rule as u8
}

/// Returns whether a rule holds: always.
#[cfg(not(feature = "simulation"))]
pub(crate) fn holds(_: Rule) -> bool {
    true
}
