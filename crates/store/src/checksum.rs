//! The checksum of everything a store writes: CRC-32C, begun with what the content must be.

/// CRC-32C of the magic, the version, the salt and the content, one after the other.
///
/// A structure that keeps its magic and version in the checksum alone still cannot be taken for
/// another, or for one of another version.
pub(crate) fn checksum(magic: &[u8; 8], version: u32, salt: u16, content: &[u8]) -> u32 {
    let begun = crc32c::crc32c(magic);
    let begun = crc32c::crc32c_append(begun, &version.to_le_bytes());
    let begun = crc32c::crc32c_append(begun, &salt.to_le_bytes());
    crc32c::crc32c_append(begun, content)
}
