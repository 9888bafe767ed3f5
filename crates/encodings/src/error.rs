//! What is wrong with a minipage.

/// A minipage that no encoder wrote: `problem` says what was expected. Whoever read it knows the device and the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the minipage is damaged: {problem}")]
pub struct Damaged {
    /// What is not as it should be.
    pub problem: &'static str,
}

impl Damaged {
    pub(crate) const TOO_SHORT: Damaged = Damaged { problem: "it ends before its last value" };
    pub(crate) const UNKNOWN_CODE: Damaged = Damaged { problem: "a code is not in its dictionary" };
}

/// The result of reading a minipage.
pub type Result<T> = std::result::Result<T, Damaged>;
