//! Records of fixed width, put together from parts and taken apart by offset.

/// The parts, one after the other, in a record that has room for just them.
pub(super) fn pack<const W: usize>(parts: &[&[u8]]) -> [u8; W] {
    let mut bytes = [0; W];
    let mut at = 0;
    for part in parts {
        let place = bytes.get_mut(at..at + part.len());
        place.expect("the record has room for its parts").copy_from_slice(part);
        at += part.len();
    }
    assert_eq!(at, W, "a record is made of its parts");
    bytes
}

/// The part of `N` bytes at an offset.
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let part = bytes.get(at..).and_then(|rest| rest.first_chunk());
    *part.expect("the part lies within its record")
}

/// The big-endian number of 4 bytes at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(part(bytes, at))
}

/// The big-endian number of 8 bytes at an offset.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(part(bytes, at))
}
