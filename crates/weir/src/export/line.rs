//! Rows of an answer as line protocol.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::Value;
use wire::line::{push_measurement, push_name, push_string, push_tag};

use super::plan::FieldType;
use crate::remote::Series;

/// Writes the points of one measurement.
pub struct Lines {
    measurement: Vec<u8>,
    types: BTreeMap<String, FieldType>,
    line: Vec<u8>,
    written: u64,
}

impl Lines {
    /// Of a measurement whose fields have these types.
    pub fn new(measurement: &str, types: BTreeMap<String, FieldType>) -> Self {
        let mut escaped = Vec::new();
        push_measurement(&mut escaped, measurement);
        Self { measurement: escaped, types, line: Vec::new(), written: 0 }
    }

    /// How many points were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Writes a table's rows, of which the first column is the time in nanoseconds.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&mut self, series: &Series, out: &mut dyn Write) -> io::Result<()> {
        let mut head = self.measurement.clone();
        for (key, value) in &series.tags {
            // A tag that is not there is grouped by as an empty one.
            if let Some(value) = value.as_str().filter(|value| !value.is_empty()) {
                push_tag(&mut head, key, value);
            }
        }
        let fields: Vec<_> = series.columns.iter().skip(1).map(|name| self.field(name)).collect();
        for row in &series.values {
            let Some((Value::Number(time), values)) = row.split_first() else { continue };
            self.line.clone_from(&head);
            for ((name, kind), value) in fields.iter().zip(values) {
                if !value.is_null() {
                    self.line.push(if self.line.len() == head.len() { b' ' } else { b',' });
                    self.line.extend_from_slice(name);
                    self.line.push(b'=');
                    push(&mut self.line, value, *kind);
                }
            }
            if self.line.len() > head.len() {
                out.write_all(&self.line)?;
                writeln!(out, " {time}")?;
                self.written += 1;
            }
        }
        Ok(())
    }

    fn field(&self, name: &str) -> (Vec<u8>, FieldType) {
        let kind = self.types.get(name).copied().unwrap_or(FieldType::Float);
        let mut escaped = Vec::new();
        push_name(&mut escaped, name);
        (escaped, kind)
    }
}

fn push(line: &mut Vec<u8>, value: &Value, kind: FieldType) {
    match value {
        Value::String(text) => push_string(line, text),
        other => {
            line.extend_from_slice(other.to_string().as_bytes());
            match kind {
                FieldType::Integer => line.push(b'i'),
                FieldType::Unsigned => line.push(b'u'),
                FieldType::Float | FieldType::String | FieldType::Boolean => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_with_types_and_escapes() {
        let series = r#"{"name":"m ,x","tags":{"host":"a b","none":"","k=":"c,d"},
            "columns":["time","f","i","s","b","u v"],
            "values":[[1700000000000000001,1,-5,"q\"\\ ",true,7],[2,null,null,null,null,null],
                      [3,0.1,null,null,false,18446744073709551615]]}"#;
        let types = BTreeMap::from([
            ("f".to_owned(), FieldType::Float),
            ("i".to_owned(), FieldType::Integer),
            ("s".to_owned(), FieldType::String),
            ("b".to_owned(), FieldType::Boolean),
            ("u v".to_owned(), FieldType::Unsigned),
        ]);
        let mut lines = Lines::new("m ,x", types);
        let mut out = Vec::new();
        lines.write(&serde_json::from_str(series).unwrap(), &mut out).unwrap();
        let series = r"m\ \,x,host=a\ b,k\==c\,d";
        let first = r#"f=1,i=-5i,s="q\"\\ ",b=true,u\ v=7u 1700000000000000001"#;
        let third = r"f=0.1,b=false,u\ v=18446744073709551615u 3";
        let expected = format!("{series} {first}\n{series} {third}\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(lines.written(), 2);
    }
}
