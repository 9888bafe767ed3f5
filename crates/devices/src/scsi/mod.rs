//! A SCSI drive behind the storage interface: blocks and diagnostic commands over one transport.
//!
//! `commands` has the bytes of the SCSI documents and nothing else; `sg` is Linux's generic interface, which hands them to a drive;
//! `drive` is the device made of both. The tests have a transport that answers with the bytes of the documents. No real drive was at
//! hand when this was written.

mod commands;
mod drive;
mod sg;

use std::fmt::Debug;
use std::io;

pub use commands::{Sense, fuzz};
pub use drive::ScsiDrive;
pub use sg::Generic;

/// What carries commands to a drive.
pub trait Transport: Send + Sync + Debug + 'static {
    /// Carries out a command, whose bytes are `command`. Blocks the calling thread.
    ///
    /// # Errors
    /// What keeps the command from the drive; what the drive says is in the reply.
    fn execute(&self, command: &[u8], data: Data<'_>) -> io::Result<Reply>;
}

/// The data that go with a command.
#[derive(Debug)]
pub enum Data<'a> {
    /// None.
    None,
    /// From the drive.
    In(&'a mut [u8]),
    /// To the drive.
    Out(&'a [u8]),
}

impl Data<'_> {
    /// The same data for one command of several.
    fn again(&mut self) -> Data<'_> {
        match self {
            Data::None => Data::None,
            Data::In(bytes) => Data::In(bytes),
            Data::Out(bytes) => Data::Out(bytes),
        }
    }
}

/// What a drive answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Bytes that came from the drive.
    pub bytes: usize,
    /// Why it did not do what it was asked to.
    pub sense: Option<Sense>,
}
