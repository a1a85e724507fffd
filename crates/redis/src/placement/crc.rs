//! Cyclic redundancy checks: Redis Cluster's, libmemcached's and the usual one.

/// CRC-16/XMODEM, most significant bit first.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-32 (IEEE 802.3), least significant bit first.
const CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-16/XMODEM: Redis Cluster Specification, "Keys distribution model".
pub fn crc16(key: &[u8]) -> u16 {
    key.iter().fold(0, |crc: u16, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The same sum in a register of 32 bits, from which nothing is cut off: what twemproxy calls
/// `crc16`. Its lower half is the CRC-16.
pub fn crc16_wide(key: &[u8]) -> u32 {
    key.iter().fold(0, |crc: u32, byte| {
        (crc << 8) ^ u32::from(CRC16[usize::from((crc >> 8) as u8 ^ byte)])
    })
}

/// CRC-32 as zlib has it.
pub fn crc32(key: &[u8]) -> u32 {
    !key.iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ CRC32[usize::from(crc as u8 ^ byte)])
}
