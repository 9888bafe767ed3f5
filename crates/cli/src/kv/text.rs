//! How keys and values are given and printed.

use std::borrow::Cow;
use std::ffi::OsStr;

use crate::failure::Failure;

/// Bytes as they are, or in hexadecimal digits.
#[derive(Clone, Copy)]
pub(super) struct Text {
    pub(super) is_hex: bool,
}

impl Text {
    pub(super) fn read(self, text: &OsStr) -> Result<Vec<u8>, Failure> {
        self.read_bytes(text.as_encoded_bytes())
            .map_err(|problem| Failure::Usage(format!("`{}`: {problem}", text.display())))
    }

    pub(super) fn read_bytes(self, text: &[u8]) -> Result<Vec<u8>, hex::FromHexError> {
        if self.is_hex { hex::decode(text) } else { Ok(text.to_vec()) }
    }

    pub(super) fn written(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        if self.is_hex { hex::encode(bytes).into_bytes().into() } else { bytes.into() }
    }
}
