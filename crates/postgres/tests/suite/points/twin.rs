//! A session that says what it hears.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rig::postgres::SUPERUSER;
use wire::postgres::backend::Fields;
use wire::postgres::frontend::{
    Target, put_bind_written, put_describe, put_execute, put_parse, put_query, put_sync,
};
use wire::postgres::startup::put_start;
use wire::sql::Lifted;

/// What is heard of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatementReply {
    /// The description of its rows.
    pub columns: Option<Vec<u8>>,
    /// The bodies of its DataRow messages.
    pub rows: Vec<Vec<u8>>,
    /// The tag of its CommandComplete.
    pub tag: Option<String>,
    /// The notices that came with it.
    pub notices: Vec<String>,
    /// The fields of its error, but for where in which text it is.
    pub error: Option<Vec<(char, String)>>,
}

impl StatementReply {
    /// The SQLSTATE of the error.
    pub fn code(&self) -> Option<&str> {
        let fields = self.error.as_ref()?;
        fields.iter().find(|field| field.0 == 'C').map(|field| &*field.1)
    }
}

/// One session with the server.
pub struct Twin {
    stream: TcpStream,
    prepared: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Twin {
    pub fn connect(address: SocketAddr, database: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut twin = Self { stream, prepared: Vec::new() };
        let mut start = Vec::new();
        put_start(&mut start, 0, [("user", SUPERUSER), ("database", database)]);
        twin.ask(&start);
        twin
    }

    /// Runs a text as a simple query.
    pub fn text(&mut self, sql: &str) -> StatementReply {
        let mut out = Vec::new();
        put_query(&mut out, sql.as_bytes());
        self.ask(&out)
    }

    /// Runs what was lifted out of a text, prepared once; with a description of its rows where it
    /// has any.
    pub fn lifted(&mut self, lifted: &Lifted, has_rows: bool) -> StatementReply {
        let same =
            |(text, types): &(Vec<u8>, Vec<u8>)| *text == lifted.text && *types == lifted.types;
        let mut out = Vec::new();
        let number = self.prepared.iter().position(same).unwrap_or_else(|| {
            self.prepared.push((lifted.text.clone(), lifted.types.clone()));
            self.prepared.len() - 1
        });
        let name = format!("s{number}");
        let name = name.as_bytes();
        if number + 1 == self.prepared.len() {
            let types: Vec<u32> = lifted.types[2..]
                .as_chunks()
                .0
                .iter()
                .map(|oid| u32::from_be_bytes(*oid))
                .collect();
            wire::postgres::frontend::put_close(&mut out, Target::Statement(name));
            put_parse(&mut out, name, &lifted.text, &types);
        }
        put_bind_written(&mut out, name, lifted.count, &lifted.values);
        if has_rows {
            put_describe(&mut out, Target::Portal(b""));
        }
        put_execute(&mut out, b"", 0);
        put_sync(&mut out);
        let heard = self.ask(&out);
        if heard.error.is_some() && number + 1 == self.prepared.len() {
            // Perhaps it was not prepared.
            self.prepared.pop();
        }
        heard
    }

    fn ask(&mut self, bytes: &[u8]) -> StatementReply {
        self.stream.write_all(bytes).unwrap();
        let mut heard = StatementReply::default();
        loop {
            let mut head = [0; 5];
            self.stream.read_exact(&mut head).unwrap();
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; len - 4];
            self.stream.read_exact(&mut body).unwrap();
            match head[0] {
                b'Z' => return heard,
                b'T' => heard.columns = Some(body),
                b'D' => heard.rows.push(body),
                b'C' => heard.tag = Some(text(&body)),
                b'N' => heard.notices.push(text(&body)),
                b'E' => {
                    let fields = Fields::read(&body).unwrap();
                    // Position, context, and the place in the server's source.
                    let kept = fields.iter().filter(|(letter, _)| !b"PWFLR".contains(letter));
                    heard.error = Some(
                        kept.map(|(letter, value)| (char::from(letter), text(value))).collect(),
                    );
                }
                _ => {}
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
