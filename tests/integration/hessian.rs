//! Values of Hessian beside hessian-lite, the library of Dubbo's own, in both directions.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use wire::hessian2::{Class, Decoder, Encoder, Limits, List, Map, Object, Value};

/// What a script ends with where the jar cannot be had.
const NOT_TRIED: i32 = 77;

#[test]
fn values_are_those_of_hessian_lite_of_dubbo_2() {
    compare("com.alibaba", "3.2.13");
}

#[test]
fn values_are_those_of_hessian_lite_of_dubbo_3() {
    compare("org.apache.dubbo", "4.0.3");
}

#[track_caller]
fn compare(group: &str, version: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let values: Vec<Value> = (1..=2000).map(|seed| Generator::new(seed).value(0)).collect();
    let records: Vec<u8> = values.iter().flat_map(|value| record(&encode(value))).collect();
    fs::write(dir.path().join("values"), records).expect("a file");
    let mut script = rig::clients::script("hessian");
    let output = script.args([group, version]).env("WEIR_DIR", dir.path()).output().expect("bash");
    if output.status.code() == Some(NOT_TRIED) {
        println!("hessian-lite {version}: not tried\n{}", rig::clients::said(&output));
        return;
    }
    assert!(output.status.success(), "{}", rig::clients::said(&output));
    let read = |name| records_of(&fs::read(dir.path().join(name)).expect("a file"));
    let again = read("again");
    assert_eq!(again.len(), values.len());
    for (value, again) in values.iter().zip(again) {
        let again = Decoder::new(&again, Limits::default()).value().expect("a value");
        assert_eq!(print(&again), print(value), "{value:?}");
    }
    let own = read("own");
    assert_eq!(own.len(), 4000);
    for pair in own.chunks_exact(2) {
        let [bytes, text] = pair else { unreachable!("two by two") };
        let mut decoder = Decoder::new(bytes, Limits::default());
        let value = decoder.value().unwrap_or_else(|error| panic!("{error}: {}", shown(text)));
        assert!(decoder.rest().is_empty());
        assert!(print(&value) == shown(text), "{}\n{}", print(&value), shown(text));
        let again = encode(&value);
        // Chunks of a binary end where hessian-lite's buffer does.
        if !has_chunks(&value) {
            assert!(again == *bytes, "{}", shown(text));
        }
        let again = Decoder::new(&again, Limits::default()).value().expect("a value");
        assert!(print(&again) == shown(text));
    }
    println!("{}", rig::clients::said(&output));
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::default().value(&mut out, value);
    out
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a short one");
    [&length.to_be_bytes(), bytes].concat()
}

fn records_of(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

/// A value as the Java program prints its own: lists, maps and objects are numbered as they are
/// met, fields stand in the order of their names.
fn print(value: &Value) -> String {
    let mut printer = Printer::default();
    index(value, &mut printer.compounds);
    printer.print(value);
    printer.out
}

#[derive(Default)]
struct Printer<'a> {
    out: String,
    /// In the order of the wire, which references count.
    compounds: Vec<&'a Value>,
    /// The number of each compound value that has been printed, by where it lies.
    met: HashMap<*const Value, usize>,
}

fn index<'a>(value: &'a Value, compounds: &mut Vec<&'a Value>) {
    if matches!(value, Value::List(_) | Value::Map(_) | Value::Object(_)) {
        compounds.push(value);
    }
    match value {
        Value::List(list) => list.elements.iter().for_each(|inner| index(inner, compounds)),
        Value::Object(object) => object.values.iter().for_each(|inner| index(inner, compounds)),
        Value::Map(map) => {
            for (key, value) in &map.entries {
                index(key, compounds);
                index(value, compounds);
            }
        }
        _ => {}
    }
}

fn has_chunks(value: &Value) -> bool {
    match value {
        Value::Binary(bytes) => bytes.len() > 4000,
        Value::List(list) => list.elements.iter().any(has_chunks),
        Value::Map(map) => map.entries.iter().any(|(_, value)| has_chunks(value)),
        Value::Object(object) => object.values.iter().any(has_chunks),
        _ => false,
    }
}

impl<'a> Printer<'a> {
    fn print(&mut self, value: &'a Value) {
        let out = &mut self.out;
        match value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => write!(out, "{value}").expect("a string"),
            Value::Int(value) => write!(out, "i{value}").expect("a string"),
            Value::Long(value) => write!(out, "l{value}").expect("a string"),
            Value::Double(value) => {
                let number = if *value == 0.0 { 0.0 } else { *value };
                let bits = if number.is_nan() { 0x7ff8 << 48 } else { number.to_bits() };
                write!(out, "d{bits:x}").expect("a string");
            }
            Value::Date(value) => write!(out, "t{value}").expect("a string"),
            Value::String(text) => {
                out.push('s');
                text.encode_utf16().for_each(|unit| write!(out, "{unit:04x}").expect("a string"));
            }
            Value::Binary(bytes) => {
                out.push('b');
                bytes.iter().for_each(|byte| write!(out, "{byte:02x}").expect("a string"));
            }
            Value::Reference(number) => self.print(self.compounds[*number as usize]),
            compound => {
                let next = self.met.len();
                match self.met.get(&std::ptr::from_ref(compound)) {
                    Some(number) => write!(out, "#{number}").expect("a string"),
                    None => {
                        self.met.insert(compound, next);
                        self.compound(compound);
                    }
                }
            }
        }
    }

    fn compound(&mut self, value: &'a Value) {
        match value {
            Value::List(List { type_name, elements }) => {
                self.type_name(type_name.as_deref(), "java.util.ArrayList");
                self.out.push('[');
                for element in elements {
                    self.print(element);
                    self.out.push(',');
                }
                self.out.push(']');
            }
            Value::Map(Map { type_name, entries }) => {
                self.type_name(type_name.as_deref(), "java.util.HashMap");
                self.out.push('{');
                for (key, value) in entries {
                    self.print(key);
                    self.out.push('=');
                    self.print(value);
                    self.out.push(',');
                }
                self.out.push('}');
            }
            Value::Object(Object { class, values }) => {
                self.out.push_str(&class.name);
                self.out.push('(');
                let mut fields: Vec<_> = class.fields.iter().zip(values).collect();
                fields.sort_by_key(|(name, _)| *name);
                for (name, value) in fields {
                    self.out.push_str(name);
                    self.out.push('=');
                    self.print(value);
                    self.out.push(',');
                }
                self.out.push(')');
            }
            _ => {}
        }
    }

    /// What is read of no type is of one that Java may write.
    fn type_name(&mut self, name: Option<&str>, implied: &str) {
        self.out.push_str(name.filter(|name| *name != implied).unwrap_or_default());
    }
}

/// Makes values that Java has types for, each from a seed.
struct Generator {
    state: u64,
    /// Lists, maps and objects that have begun.
    begun: u32,
    node: Arc<Class>,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let fields = ["number", "text", "next"].map(str::to_owned).to_vec();
        let node = Arc::new(Class { name: "Main$Node".to_owned(), fields });
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), begun: 0, node }
    }

    /// xorshift64*, whose state is never zero.
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    fn long(&mut self) -> i64 {
        let by = self.below(64);
        self.next().cast_signed() >> by
    }

    fn text(&mut self) -> String {
        let length = match self.below(100) {
            0 => 0x7ff0 + self.below(0x1_0000),
            1..10 => 1020 + self.below(8),
            10..20 => 28 + self.below(8),
            _ => self.below(6),
        };
        let characters = ["a", "\0", "\u{e9}", "\u{4e2d}", "\u{1f600}", "\u{ffff}"];
        let kinds = 1 + self.below(6);
        (0..length).map(|_| characters[self.below(kinds) as usize]).collect()
    }

    fn value(&mut self, depth: u32) -> Value {
        let kinds = if depth > 4 { 9 } else { 14 };
        match self.below(kinds) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(self.long() as i32),
            3 => Value::Long(self.long()),
            4 => Value::Double(match self.below(3) {
                0 => f64::from_bits(self.next()),
                1 => 0.001 * f64::from(self.long() as i32),
                _ => self.long() as f64,
            }),
            5 => Value::Date(match self.below(2) {
                0 => self.long(),
                _ => i64::from(self.long() as i32) * 60_000,
            }),
            6 => Value::String(self.text()),
            7 => {
                let length = if self.below(9) == 0 { 70_000 } else { 1100 };
                Value::Binary((0..self.below(length)).map(|at| at as u8).collect())
            }
            8 if self.begun > 0 => Value::Reference(self.below(self.begun.into()) as u32),
            8 => Value::Null,
            9 | 10 => self.list(depth),
            11 | 12 => self.map(depth),
            _ => {
                self.begun += 1;
                let number = Value::Int(self.long() as i32);
                let text = Value::String(self.text());
                let values = vec![number, text, self.value(depth + 1)];
                Value::Object(Object { class: Arc::clone(&self.node), values })
            }
        }
    }

    fn list(&mut self, depth: u32) -> Value {
        self.begun += 1;
        let length = self.below(12);
        let name = match self.below(4) {
            0 => None,
            1 => Some("[object"),
            2 => Some("java.util.LinkedList"),
            _ => Some("[int"),
        };
        let elements = (0..length).map(|_| match name {
            Some("[int") => Value::Int(self.long() as i32),
            _ => self.value(depth + 1),
        });
        let elements = elements.collect();
        Value::List(List { type_name: name.map(Arc::from), elements })
    }

    /// A map that keeps its order in Java, or one of a single entry.
    fn map(&mut self, depth: u32) -> Value {
        self.begun += 1;
        let (name, length) = match self.below(2) {
            0 => (None, self.below(2)),
            _ => (Some("java.util.LinkedHashMap"), self.below(8)),
        };
        let entries = (0..length).map(|key| {
            let key = Value::String(format!("{key}{}", self.text()));
            (key, self.value(depth + 1))
        });
        let entries = entries.collect();
        Value::Map(Map { type_name: name.map(Arc::from), entries })
    }
}
