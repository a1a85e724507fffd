//! Makes of JSON what a Java client would send for a parameter of a given type.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Class, List, Map, Object, Value};

/// How instances of classes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beans {
    /// As objects of their class, for a call of the method itself.
    Objects,
    /// As maps with the name under `class`, for a generic call, in which enums are their names.
    Maps,
}

/// JSON that is not a value of a Java type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// Another kind of JSON, or a number beyond the type's range.
    #[error("{json} is not {java_type}")]
    Mismatch {
        /// The JSON, or the front of it.
        json: String,
        /// The Java type, as it was given.
        java_type: String,
    },
    /// A name that has no type in Java, as `int[`.
    #[error("{0:?} is not the name of a Java type")]
    UnknownType(String),
}

/// Converts JSON to a value of a Java type: of a primitive type, its box, `java.lang.String`,
/// `java.util.Date` (milliseconds since 1970), `java.math.BigDecimal` (a number, or a string that
/// keeps its scale), arrays as `int[]`, collections and maps of `java.util` with or without type
/// arguments, or any other class, which is an object, or of an enum the name of a constant.
/// Fields of a class, and elements without a type, are converted by their looks; an object there
/// with a text under `class` is an instance of it.
///
/// # Errors
/// The JSON is not a value of the type.
pub fn from_json(json: &Json, java_type: &str, beans: Beans) -> Result<Value, ConversionError> {
    let (raw, arguments) = type_arguments(java_type)?;
    let mismatch = || ConversionError::Mismatch {
        json: json.to_string().chars().take(80).collect(),
        java_type: java_type.to_owned(),
    };
    if let Some(number) = number(json, raw) {
        return number.ok_or_else(mismatch);
    }
    if json.is_null() {
        return Ok(Value::Null);
    }
    if let Some(element) = raw.strip_suffix("[]") {
        return array(json, element, beans)?.ok_or_else(mismatch);
    }
    let value = match (raw, json) {
        ("java.lang.Object" | "java.io.Serializable", json) => Some(natural(json, beans)),
        ("java.lang.String" | "java.lang.CharSequence", Json::String(text)) => {
            Some(Value::String(text.clone()))
        }
        ("java.lang.String" | "java.lang.CharSequence", _) => None,
        ("java.math.BigDecimal", Json::Number(number)) => Some(decimal(number.to_string())),
        ("java.math.BigDecimal", Json::String(text)) => Some(decimal(text.clone())),
        (_, Json::Array(elements)) if raw.starts_with("java.util.") => {
            let element = arguments.first().copied().unwrap_or("java.lang.Object");
            let elements = elements.iter().map(|json| from_json(json, element, beans));
            Some(list(collection(raw), elements.collect::<Result<_, _>>()?))
        }
        (_, Json::Object(entries)) if raw.starts_with("java.util.") => {
            let of = arguments.get(1).copied().unwrap_or("java.lang.Object");
            let key = arguments.first().copied().unwrap_or("java.lang.String");
            let entries = entries.iter().map(|(name, json)| {
                let name = map_key(name, key).ok_or_else(mismatch)?;
                Ok((name, from_json(json, of, beans)?))
            });
            let entries = entries.collect::<Result<_, ConversionError>>()?;
            Some(Value::Map(Map { type_name: map(raw).map(Arc::from), entries }))
        }
        (_, Json::Object(fields)) => Some(bean(raw, fields, beans)),
        (_, Json::String(name)) if !raw.starts_with("java.") => Some(match beans {
            Beans::Objects => object(raw, [("name", Value::String(name.clone()))]),
            Beans::Maps => Value::String(name.clone()),
        }),
        _ => None,
    };
    value.ok_or_else(mismatch)
}

/// A value of a primitive type, a box of one, or a date. `None`: the type is another one.
fn number(json: &Json, java_type: &str) -> Option<Option<Value>> {
    let is_box = java_type.starts_with("java.");
    let within = |min: i32, max: i32| {
        let number = json.as_i64().and_then(|number| i32::try_from(number).ok());
        number.filter(|number| (min..=max).contains(number)).map(Value::Int)
    };
    let value = match java_type {
        "boolean" | "java.lang.Boolean" => json.as_bool().map(Value::Bool),
        "byte" | "java.lang.Byte" => within(i8::MIN.into(), i8::MAX.into()),
        "short" | "java.lang.Short" => within(i16::MIN.into(), i16::MAX.into()),
        "int" | "java.lang.Integer" => within(i32::MIN, i32::MAX),
        "long" | "java.lang.Long" => json.as_i64().map(Value::Long),
        "float" | "java.lang.Float" | "double" | "java.lang.Double" => {
            json.as_f64().map(Value::Double)
        }
        "char" | "java.lang.Character" => {
            let text = json.as_str().filter(|text| text.encode_utf16().count() == 1);
            text.map(Value::from)
        }
        "java.util.Date" => json.as_i64().map(Value::Date),
        _ => return None,
    };
    Some(value.or_else(|| (is_box && json.is_null()).then_some(Value::Null)))
}

/// An array; of bytes it is a binary. `None`: the JSON is not one.
fn array(json: &Json, element: &str, beans: Beans) -> Result<Option<Value>, ConversionError> {
    let Json::Array(elements) = json else { return Ok(None) };
    if element == "byte" {
        let byte = |json: &Json| i8::try_from(json.as_i64()?).ok().map(i8::cast_unsigned);
        return Ok(elements.iter().map(byte).collect::<Option<_>>().map(Value::Binary));
    }
    let elements: Vec<Value> =
        elements.iter().map(|json| from_json(json, element, beans)).collect::<Result<_, _>>()?;
    let mut name = String::from("[");
    let mut inner = element;
    while let Some(of) = inner.strip_suffix("[]") {
        name.push('[');
        inner = of;
    }
    name.push_str(match inner {
        "java.lang.String" => "string",
        "java.lang.Object" => "object",
        "java.util.Date" => "date",
        other => other,
    });
    Ok(Some(list(Some(&name), elements)))
}

/// A value of no given type, by its looks.
fn natural(json: &Json, beans: Beans) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => i32::try_from(whole).map_or(Value::Long(whole), Value::Int),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(text.clone()),
        Json::Array(elements) => {
            list(None, elements.iter().map(|json| natural(json, beans)).collect())
        }
        Json::Object(fields) => match fields.get("class").and_then(Json::as_str) {
            Some(class) => bean(class, fields, beans),
            None => {
                let entry = |(name, json): (&String, &Json)| {
                    (Value::String(name.clone()), natural(json, beans))
                };
                Value::Map(Map { type_name: None, entries: fields.iter().map(entry).collect() })
            }
        },
    }
}

fn bean(class: &str, fields: &serde_json::Map<String, Json>, beans: Beans) -> Value {
    let own = fields.iter().filter(|(name, _)| *name != "class");
    let own = own.map(|(name, json)| (name.as_str(), natural(json, beans)));
    match beans {
        Beans::Objects => object(class, own),
        Beans::Maps => {
            let class = std::iter::once(("class", Value::from(class)));
            let entries = class.chain(own).map(|(name, value)| (Value::from(name), value));
            Value::Map(Map { type_name: None, entries: entries.collect() })
        }
    }
}

fn object<'a>(class: &str, fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let (fields, values) = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).unzip();
    Value::Object(Object { class: Arc::new(Class { name: class.to_owned(), fields }), values })
}

fn decimal(text: String) -> Value {
    object("java.math.BigDecimal", [("value", Value::String(text))])
}

fn list(type_name: Option<&str>, elements: Vec<Value>) -> Value {
    Value::List(List { type_name: type_name.map(Arc::from), elements })
}

/// The class that stands for a collection's interface; none is read as `ArrayList`.
fn collection(java_type: &str) -> Option<&str> {
    match java_type {
        "java.util.List" | "java.util.Collection" | "java.util.ArrayList" => None,
        "java.util.Set" => Some("java.util.HashSet"),
        "java.util.SortedSet" | "java.util.NavigableSet" => Some("java.util.TreeSet"),
        "java.util.Queue" | "java.util.Deque" => Some("java.util.LinkedList"),
        other => Some(other),
    }
}

/// The class that stands for a map's interface; none is read as `HashMap`.
fn map(java_type: &str) -> Option<&str> {
    match java_type {
        "java.util.Map" | "java.util.HashMap" => None,
        "java.util.SortedMap" | "java.util.NavigableMap" => Some("java.util.TreeMap"),
        other => Some(other),
    }
}

/// Keys are texts in JSON, and may be numbers in Java.
fn map_key(name: &str, java_type: &str) -> Option<Value> {
    match java_type {
        "java.lang.Integer" => name.parse().ok().map(Value::Int),
        "java.lang.Long" => name.parse().ok().map(Value::Long),
        _ => Some(Value::from(name)),
    }
}

/// A type without its arguments, and these: `java.util.Map` and both of `java.util.Map<K, V>`.
fn type_arguments(java_type: &str) -> Result<(&str, Vec<&str>), ConversionError> {
    let unknown = || ConversionError::UnknownType(java_type.to_owned());
    let name = |name: &str| {
        let is_of = |character: char| character.is_alphanumeric() || "._$[]".contains(character);
        !name.trim_end_matches("[]").is_empty() && name.chars().all(is_of)
    };
    let Some((raw, rest)) = java_type.split_once('<') else {
        return if name(java_type) { Ok((java_type, Vec::new())) } else { Err(unknown()) };
    };
    let inner = rest.strip_suffix('>').filter(|_| name(raw)).ok_or_else(unknown)?;
    let (mut depth, mut begin, mut arguments) = (0_usize, 0, Vec::new());
    for (at, character) in inner.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.checked_sub(1).ok_or_else(unknown)?,
            ',' if depth == 0 => {
                arguments.push(inner.get(begin..at).unwrap_or_default().trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(inner.get(begin..).unwrap_or_default().trim());
    Ok((raw, arguments))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert(json: Json, java_type: &str) -> Result<Value, String> {
        from_json(&json, java_type, Beans::Objects).map_err(|error| error.to_string())
    }

    #[test]
    fn json_becomes_what_java_would_send() {
        let cases = [
            (json!(true), "boolean", Value::Bool(true)),
            (json!(-128), "byte", Value::Int(-128)),
            (json!(7), "java.lang.Integer", Value::Int(7)),
            (json!(null), "java.lang.Integer", Value::Null),
            (json!(7), "long", Value::Long(7)),
            (json!(7), "double", Value::Double(7.0)),
            (json!("x"), "char", Value::from("x")),
            (json!("text"), "java.lang.String", Value::from("text")),
            (json!(60_000), "java.util.Date", Value::Date(60_000)),
            (json!([1, -1]), "byte[]", Value::Binary(vec![1, 255])),
            (json!([1]), "int[]", list(Some("[int"), vec![Value::Int(1)])),
            (json!(["a"]), "java.lang.String[]", list(Some("[string"), vec!["a".into()])),
            (json!([[]]), "long[][]", list(Some("[[long"), vec![list(Some("[long"), vec![])])),
            (json!([1]), "java.util.List<java.lang.Long>", list(None, vec![Value::Long(1)])),
            (json!([]), "java.util.Set", list(Some("java.util.HashSet"), vec![])),
            (json!("12.50"), "java.math.BigDecimal", decimal("12.50".to_owned())),
            (json!("RED"), "com.acme.Colour", object("com.acme.Colour", [("name", "RED".into())])),
            (json!(1_i64 << 40), "java.lang.Object", Value::Long(1 << 40)),
        ];
        for (json, java_type, wanted) in cases {
            assert_eq!(convert(json, java_type), Ok(wanted), "{java_type}");
        }
        let map = convert(json!({"1": [2]}), "java.util.Map<java.lang.Long, java.util.List<long>>");
        let entries = vec![(Value::Long(1), list(None, vec![Value::Long(2)]))];
        assert_eq!(map, Ok(Value::Map(Map { type_name: None, entries })));
    }

    #[test]
    fn a_bean_is_an_object_or_a_map_with_its_class() {
        let order = json!({"lines": [{"class": "com.acme.Line", "n": 1}]});
        let line = object("com.acme.Line", [("n", Value::Int(1))]);
        let wanted = object("com.acme.Order", [("lines", list(None, vec![line]))]);
        assert_eq!(convert(order.clone(), "com.acme.Order"), Ok(wanted));
        let Ok(Value::Map(order)) = from_json(&order, "com.acme.Order", Beans::Maps) else {
            panic!("a map")
        };
        assert_eq!(order.get("class"), Some(&"com.acme.Order".into()));
        let Some(Value::List(lines)) = order.get("lines") else { panic!("{order:?}") };
        let [Value::Map(line)] = &lines.elements[..] else { panic!("{lines:?}") };
        assert_eq!(line.get("class"), Some(&"com.acme.Line".into()));
    }

    #[test]
    fn json_of_another_type_is_refused() {
        for (json, java_type, wanted) in [
            (json!(128), "byte", "128 is not byte"),
            (json!(null), "int", "null is not int"),
            (json!(1.5), "long", "1.5 is not long"),
            (json!("xy"), "char", "\"xy\" is not char"),
            (json!(1), "java.lang.String", "1 is not java.lang.String"),
            (json!([200]), "byte[]", "[200] is not byte[]"),
            (json!(["a"]), "java.util.List<int>", "\"a\" is not int"),
            (json!("a"), "java.util.List", "\"a\" is not java.util.List"),
            (json!(1), "com.acme.Order", "1 is not com.acme.Order"),
            (json!(1), "", "\"\" is not the name of a Java type"),
            (json!(1), "java.util.List<", "\"java.util.List<\" is not the name of a Java type"),
        ] {
            assert_eq!(convert(json, java_type), Err(wanted.to_owned()));
        }
    }
}
