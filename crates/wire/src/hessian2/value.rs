//! The tree of a value.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value. Doubles compare as numbers do: one that is not a number differs from itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `boolean`
    Bool(bool),
    /// `int`, `short` and `byte` of Java.
    Int(i32),
    /// `long`
    Long(i64),
    /// `double` and `float` of Java.
    Double(f64),
    /// Milliseconds since 1970, of UTC.
    Date(i64),
    /// Text without unpaired surrogates.
    String(String),
    /// `byte[]`
    Binary(Vec<u8>),
    /// Arrays and collections of Java.
    List(List),
    /// Maps with keys of any kind.
    Map(Map),
    /// Everything else of Java: beans, enums, exceptions, `BigDecimal`.
    Object(Object),
    /// A list, map or object that began before, by its number: they are counted from 0 in the order
    /// in which they begin, over all values of a message. It may still be open, in a cycle.
    Reference(u32),
}

/// Elements in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct List {
    /// As `[string` for `String[]` or `java.util.LinkedList`; most Java clients write one.
    pub type_name: Option<Arc<str>>,
    /// May have references to the list.
    pub elements: Vec<Value>,
}

/// Keys and values in the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map {
    /// As `java.util.TreeMap`; `HashMap` has none.
    pub type_name: Option<Arc<str>>,
    /// Keys may occur more than once on the wire.
    pub entries: Vec<(Value, Value)>,
}

/// A class by its name and the fields that are written of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// With its package, as `com.acme.Order`.
    pub name: String,
    /// Names in the order of the values.
    pub fields: Vec<String>,
}

/// One instance of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Shared by all instances of a message.
    pub class: Arc<Class>,
    /// One for each field of the class; the encoder writes null for those that are missing.
    pub values: Vec<Value>,
}

impl Hash for Class {
    // Classes of one name and several sets of fields are rare; hashing them all is not.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Value {
    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }
}

impl Map {
    /// The first value whose key is this text.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(own, _)| own.as_str() == Some(key)).map(|(_, value)| value)
    }
}

impl Object {
    /// The value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        let at = self.class.fields.iter().position(|name| name == field)?;
        self.values.get(at)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}
