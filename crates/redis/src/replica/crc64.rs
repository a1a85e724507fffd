//! The checksum at an RDB file's end: CRC-64 with Jones's polynomial, reflected, from 0
//! (`crc64.c` of Redis).

/// `0xad93d23594c935a9`, its bits in reverse.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// By eight bytes at once: table `n` is of a byte with `n` zero bytes behind it.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[n - 1][byte];
            tables[n][byte] = tables[0][(crc & 0xff) as usize] ^ (crc >> 8);
            byte += 1;
        }
        n += 1;
    }
    tables
}

fn entry(table: usize, byte: u64) -> u64 {
    TABLES[table][(byte & 0xff) as usize]
}

/// The checksum of what came before and then `bytes`.
pub fn append(crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| {
        let mixed = crc ^ u64::from_le_bytes(*word);
        (0..8).fold(0, |sum, n| sum ^ entry(7 - n, mixed >> (8 * n)))
    });
    rest.iter().fold(crc, |crc, byte| entry(0, crc ^ u64::from(*byte)) ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::append;

    /// The value of Redis's own test of it, and pieces change nothing.
    #[test]
    fn it_is_redis_own() {
        assert_eq!(append(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let text = b"This is a test of the emergency broadcast system.";
        let whole = text.iter().fold(0, |crc, byte| append(crc, &[*byte]));
        for at in 0..text.len() {
            assert_eq!(append(append(0, &text[..at]), &text[at..]), whole);
        }
    }
}
