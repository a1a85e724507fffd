//! Keys of every shape that a placement could trip over, the same in every run.

/// Keys without an end, of which the first ones are the odd ones.
pub struct Keys {
    state: u64,
    made: usize,
}

/// Keys that every run tries.
const ODD: [&[u8]; 24] = [
    b"",
    b"a",
    b"\0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\r\n",
    b"{",
    b"}",
    b"{}",
    b"{}a",
    b"}{",
    b"{a}",
    b"{a}b",
    b"x{y}z{w}",
    b"{}{a}",
    b"{{a}}",
    b"a{b",
    b"x}y{z}w",
    b"$",
    b"$$",
    b"$a$",
    b"x$y$z$",
    b"ab\xe9",
];

const LONGEST: u64 = 300;

impl Keys {
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, made: 0 }
    }

    /// A number from 0 to `limit`, which it never is.
    fn random(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % limit
    }

    fn bytes(&mut self, longest: u64) -> Vec<u8> {
        (0..self.random(longest + 1)).map(|_| self.random(256) as u8).collect()
    }
}

impl Iterator for Keys {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let place = self.made;
        self.made += 1;
        if let Some(odd) = ODD.get(place) {
            return Some(odd.to_vec());
        }
        Some(match place % 8 {
            0 => place.to_string().into_bytes(),
            1 => format!("user:{}:session", self.random(1 << 40)).into_bytes(),
            2 => self.bytes(1),
            3 => self.bytes(20),
            4 => self.bytes(LONGEST),
            5 => format!("order:{{{}}}:{place}", self.random(1000)).into_bytes(),
            6 => [&self.bytes(9)[..], b"{", &self.bytes(9), b"}", &self.bytes(9)].concat(),
            _ => [&self.bytes(9)[..], b"$", &self.bytes(9), b"$", &self.bytes(9)].concat(),
        })
    }
}
