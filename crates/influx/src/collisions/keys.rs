//! The hashes that points are compared by. Their keys are random in each process, so that nobody
//! can choose points that share one.

use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;

use foldhash::fast::RandomState;
use memchr::memchr;
use wire::line::{self, Field, Fields, Point, Value};

/// The keys of all hashes.
#[derive(Clone, Debug)]
pub struct Keys {
    strings: RandomState,
    /// That of the times, see [`wire::line::Sampler`].
    pub times: u64,
}

/// A point as collisions are looked for: what it is of, and what it says.
#[derive(Debug, Default)]
pub struct PointDigest {
    /// A hash of database, policy, series and time.
    pub key: u64,
    /// The fields, ascending by their names' hashes, each name once.
    pub fields: Vec<FieldDigest>,
}

/// A field of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDigest {
    /// A hash of the name in the upper bits, the type of the value in the lowest three.
    tag: u32,
    /// The value, or a hash of it where it is a string.
    bits: u64,
}

/// The types of values.
const FLOAT: u32 = 0;
const INTEGER: u32 = 1;
const UNSIGNED: u32 = 2;
const BOOLEAN: u32 = 3;
const STRING: u32 = 4;
const TYPE_BITS: u32 = 3;

impl Keys {
    /// Keys that no other process has.
    pub fn new() -> Self {
        Self { strings: RandomState::default(), times: rand::random() }
    }

    fn string(&self, text: &[u8]) -> u64 {
        let mut hasher = self.strings.build_hasher();
        hasher.write(text);
        hasher.write_usize(text.len());
        hasher.finish()
    }

    fn pair(&self, one: &[u8], other: &[u8]) -> u64 {
        let mut hasher = self.strings.build_hasher();
        hasher.write(one);
        hasher.write_usize(one.len());
        hasher.write(other);
        hasher.write_usize(other.len());
        hasher.finish()
    }

    /// A hash of an address.
    pub fn address(&self, address: IpAddr) -> u32 {
        self.strings.hash_one(address) as u32
    }

    /// A hash of the names that points are written under.
    pub fn destination(&self, db: &str, policy: &str) -> u64 {
        self.pair(db.as_bytes(), policy.as_bytes())
    }

    /// A hash of a database and a measurement.
    pub fn measurement(&self, db: &str, measurement: &[u8]) -> u64 {
        self.pair(db.as_bytes(), measurement)
    }

    /// A hash of a series, whose tags may stand in any order.
    fn series(&self, series: &[u8]) -> u64 {
        let measurement = line::measurement(series);
        let tags = line::tag_pairs(series);
        if memchr(b'\\', series).is_none() {
            return tags.fold(self.string(measurement), |sum, (key, value)| {
                sum.wrapping_add(self.pair(key, value))
            });
        }
        tags.fold(self.string(&line::unescape_name(measurement)), |sum, (key, value)| {
            let (key, value) = (line::unescape_tag(key), line::unescape_tag(value));
            sum.wrapping_add(self.pair(&key, &value))
        })
    }

    /// The upper bits of a field's tag.
    fn field_name(&self, written: &[u8]) -> u32 {
        (self.string(&line::unescape_name(written)) as u32) << TYPE_BITS
    }

    /// Whether a field has the name that a digest is of.
    pub fn is_of(&self, digest: FieldDigest, written: &[u8]) -> bool {
        self.field_name(written) == digest.name()
    }

    /// The key of a point that was written under `destination`.
    pub fn point(&self, destination: u64, point: &Point<'_>) -> u64 {
        let series = self.series(point.series);
        let mut hasher = self.strings.build_hasher();
        hasher.write_u64(destination);
        hasher.write_u64(series);
        hasher.write_u64(point.time_ns.cast_unsigned());
        hasher.finish()
    }

    /// Makes `fields` the digests of a point's fields.
    pub fn fields(&self, written: Fields<'_>, fields: &mut Vec<FieldDigest>) {
        fields.clear();
        fields.extend(written.map(|field| self.field(&field)));
        // Of a name that is there twice the last one is stored.
        fields.sort_by_key(|field| field.name());
        fields.dedup_by(|later, field| {
            let same = later.name() == field.name();
            if same {
                *field = *later;
            }
            same
        });
    }

    /// The digest of a field.
    pub fn field(&self, field: &Field<'_>) -> FieldDigest {
        let (kind, bits) = match field.value {
            Value::Float(value) => (FLOAT, value.to_bits()),
            Value::Integer(value) => (INTEGER, value.cast_unsigned()),
            Value::Unsigned(value) => (UNSIGNED, value),
            Value::Boolean(value) => (BOOLEAN, u64::from(value)),
            Value::String(text) => (STRING, self.string(&line::unescape_string(text))),
        };
        FieldDigest { tag: self.field_name(field.name) | kind, bits }
    }
}

impl FieldDigest {
    /// How many words of 32 bits a digest has.
    pub const WORDS: usize = 3;

    /// The name's hash, by which fields are ordered.
    pub fn name(self) -> u32 {
        self.tag >> TYPE_BITS << TYPE_BITS
    }

    /// Whether two values are equal; those of two types never are.
    pub fn has_value_of(self, other: Self) -> bool {
        let kind = self.tag - self.name();
        let same_float = || f64::from_bits(self.bits) == f64::from_bits(other.bits);
        self.tag == other.tag && (self.bits == other.bits || kind == FLOAT && same_float())
    }

    /// The value as line protocol has it; `None` for a string, of which only a hash is there.
    pub fn value(self) -> Option<String> {
        match self.tag - self.name() {
            FLOAT => Some(f64::from_bits(self.bits).to_string()),
            INTEGER => Some(format!("{}i", self.bits.cast_signed())),
            UNSIGNED => Some(format!("{}u", self.bits)),
            BOOLEAN => Some((self.bits != 0).to_string()),
            _ => None,
        }
    }

    /// The digest as words.
    pub fn to_words(self) -> [u32; Self::WORDS] {
        [self.tag, self.bits as u32, (self.bits >> 32) as u32]
    }

    /// The digest that [`to_words`](Self::to_words) gave.
    pub fn of_words([tag, low, high]: [u32; Self::WORDS]) -> Self {
        Self { tag, bits: u64::from(high) << 32 | u64::from(low) }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a record is that was written under destination 1.
    pub fn digest(keys: &Keys, record: &str) -> PointDigest {
        let point = line::read(record.as_bytes()).unwrap();
        let mut digest = PointDigest { key: keys.point(1, &point), fields: Vec::new() };
        keys.fields(point.fields, &mut digest.fields);
        digest
    }

    #[test]
    fn a_key_is_of_series_and_time_in_any_spelling() {
        let keys = Keys::new();
        let key = |record: &str| digest(&keys, record).key;
        let known = key("m\\ x,a=1,b=2\\,3 f=1 5\n");
        assert_eq!(key("m\\ x,b=2\\,3,a=1 g=2 5\n"), known);
        for other in [
            "m\\ x,a=1,b=2\\,3 f=1 6\n",
            "m\\ x,a=2,b=1\\,3 f=1 5\n",
            "m\\ x,b=1,a=2\\,3 f=1 5\n",
            "m\\ x,a=1 f=1 5\n",
            "m\\ y,a=1,b=2\\,3 f=1 5\n",
            "m\\ x,a=1,b=2\\,3,c=4 f=1 5\n",
        ] {
            assert_ne!(key(other), known, "{other}");
        }
        assert_eq!(key("m,a=1,b=2 f=1 5\n"), key("m,b=2,a=1 f=1 5\n"));
        assert_eq!(key("m\\\"x f=1 5\n"), key("m\"x f=1 5\n"));
        let point = line::read(b"m f=1 5\n").unwrap();
        assert_ne!(keys.point(keys.destination("db", "rp"), &point), key("m f=1 5\n"));
        assert_ne!(keys.destination("ab", "c"), keys.destination("a", "bc"));
    }

    #[test]
    fn values_are_equal_as_they_are_stored() {
        let keys = Keys::new();
        let field = |value: &str| digest(&keys, &format!("m f={value} 5\n")).fields[0];
        for (one, other, equal) in [
            ("1", "1.0", true),
            ("0", "-0", true),
            ("1e1", "10", true),
            ("1", "1i", false),
            ("1i", "1u", false),
            ("1i", "2i", false),
            ("t", "TRUE", true),
            ("t", "f", false),
            ("t", "1", false),
            ("\"a\\b\"", "\"a\\\\b\"", true),
            ("\"a\"", "\"b\"", false),
            ("\"1\"", "1", false),
        ] {
            assert_eq!(field(one).has_value_of(field(other)), equal, "{one} {other}");
        }
        let shown = |value: &str| field(value).value();
        assert_eq!(shown("1.50").as_deref(), Some("1.5"));
        assert_eq!(shown("-7i").as_deref(), Some("-7i"));
        assert_eq!(shown("7u").as_deref(), Some("7u"));
        assert_eq!(shown("T").as_deref(), Some("true"));
        assert_eq!(shown("\"x\""), None);
        let one = field("-7i");
        assert_eq!(FieldDigest::of_words(one.to_words()), one);
    }

    #[test]
    fn each_field_is_there_once_with_its_last_value() {
        let keys = Keys::new();
        let fields = digest(&keys, "m f=1,g=2,f=3,g=4,h=5 5\n").fields;
        assert_eq!(fields.len(), 3);
        assert!(fields.is_sorted_by_key(|field| field.name()));
        let of = |name: &[u8]| *fields.iter().find(|field| keys.is_of(**field, name)).unwrap();
        assert_eq!(of(b"f").value().as_deref(), Some("3"));
        assert_eq!(of(b"g").value().as_deref(), Some("4"));
        assert_eq!(of(b"h").value().as_deref(), Some("5"));
    }
}
