//! What Weir keeps on the members of a cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The database of a cluster's table.
pub const NAME: &str = "_weir";

/// What stands in that database, as it was written.
#[derive(Debug, Default)]
pub struct ClusterDatabase {
    pub table: Option<String>,
    /// What each gateway has noted.
    pub notes: BTreeMap<String, String>,
}

impl ClusterDatabase {
    /// Keeps the one field of the one line.
    pub fn write(&mut self, line: &str) {
        let field = line.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"'));
        let field = field.map(|(field, _)| field.replace("\\\"", "\"").replace("\\\\", "\\"));
        match line.strip_prefix("note,gateway=") {
            Some(rest) => {
                let gateway = rest.split(' ').next().unwrap_or_default().to_owned();
                self.notes.extend(field.map(|note| (gateway, note)));
            }
            None => self.table = field,
        }
    }

    /// The result of a query for the table and the notes.
    pub fn result(&self) -> Value {
        let table = self
            .table
            .iter()
            .map(|table| json!({ "name": "placement", "values": [[0, table, null]] }));
        let notes = self.notes.iter().map(|(gateway, note)| {
            let tags = json!({ "gateway": gateway });
            json!({ "name": "note", "tags": tags, "values": [[0, null, note]] })
        });
        json!({ "series": table.chain(notes).collect::<Vec<_>>() })
    }
}
