//! A server as the protocol's documentation has it ("Message Flow"; "SET", "PREPARE"), as far as
//! transactions, prepared statements, one setting and COPY go.

use std::collections::BTreeMap;

use wire::postgres::backend::{
    Status, put_bind_complete, put_close_complete, put_command_complete, put_no_data,
    put_parameter_description, put_parse_complete, put_ready_for_query,
};
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Execute, Parse, Target, tag};
use wire::postgres::{Refusal, message};

/// What every session begins with.
pub const BASE: &str = "base";

/// A statement, and the setting by which it was read.
type Read = (String, String);

/// A server that has one session.
#[derive(Debug, Clone)]
pub struct Server {
    prepared: BTreeMap<Vec<u8>, Read>,
    portals: BTreeMap<Vec<u8>, Read>,
    /// `search_path`, as the session and as the transaction has it.
    pub session_path: String,
    local_path: Option<String>,
    /// What it was before the transaction.
    former_path: Option<String>,
    pub status: Status,
    skipping: bool,
    /// A COPY reads data; whether a Query runs it.
    copying: Option<bool>,
    /// Changes that were done, undone ones too.
    pub writes: usize,
    pub said: Vec<u8>,
    /// A statement must have been read by the setting as it is when that is run.
    is_strict: bool,
}

impl Server {
    pub fn new(is_strict: bool) -> Self {
        Self {
            is_strict,
            prepared: BTreeMap::new(),
            portals: BTreeMap::new(),
            session_path: BASE.into(),
            local_path: None,
            former_path: None,
            status: Status::Idle,
            skipping: false,
            copying: None,
            writes: 0,
            said: Vec::new(),
        }
    }

    /// Whether whoever comes next finds nothing of whoever was there before.
    pub fn is_clean(&self) -> bool {
        self.status == Status::Idle
            && !self.skipping
            && self.copying.is_none()
            && self.local_path.is_none()
            && self.said.is_empty()
    }

    pub fn takes(&mut self, sent: Frame<'_>) {
        if let Some(of_query) = self.copying {
            if sent.tag == tag::COPY_DONE {
                self.copying = None;
                put_command_complete(&mut self.said, "COPY 1");
                if of_query {
                    self.ends();
                }
            }
            return;
        }
        match sent.tag {
            tag::SYNC => {
                self.skipping = false;
                self.ends();
            }
            _ if self.skipping => {}
            tag::QUERY => {
                self.prepared.remove(&b""[..]);
                let sql = String::from_utf8_lossy(&sent.body[..sent.body.len() - 1]).into_owned();
                let path = self.path();
                match self.runs(&sql, &path, true) {
                    Err(code) => {
                        self.fails(code);
                        self.ends();
                    }
                    Ok(()) if self.copying.is_none() => self.ends(),
                    Ok(()) => {}
                }
            }
            _ => {
                if let Err(code) = self.does(sent) {
                    self.fails(code);
                    self.skipping = true;
                }
            }
        }
    }

    fn path(&self) -> String {
        self.local_path.as_ref().unwrap_or(&self.session_path).clone()
    }

    /// A message of the extended protocol.
    fn does(&mut self, sent: Frame<'_>) -> Result<(), &'static str> {
        match sent.tag {
            tag::PARSE => {
                let parse = Parse::read(sent.body).unwrap();
                let sql = String::from_utf8_lossy(parse.query).into_owned();
                self.may_take(&sql)?;
                if !parse.name.is_empty() && self.prepared.contains_key(parse.name) {
                    return Err("42P05");
                }
                let read = (sql, self.path());
                self.prepared.insert(parse.name.to_vec(), read);
                put_parse_complete(&mut self.said);
            }
            tag::BIND => {
                let bind = Bind::read(sent.body).unwrap();
                let read = self.prepared.get(bind.statement).ok_or("26000")?.clone();
                self.may_take(&read.0)?;
                self.portals.insert(bind.portal.to_vec(), read);
                put_bind_complete(&mut self.said);
            }
            tag::EXECUTE => {
                let run = Execute::read(sent.body).unwrap();
                let (sql, read_by) = self.portals.get(run.portal).ok_or("34000")?.clone();
                // It reads the statement anew where `search_path` is another one (`plancache.c`).
                let path = self.path();
                assert!(!self.is_strict || read_by == path, "{sql} by {read_by}, in {path}");
                self.runs(&sql, &path, false)?;
            }
            tag::DESCRIBE => {
                let Target::Statement(name) = Target::of_describe(sent.body).unwrap() else {
                    panic!("nobody describes portals");
                };
                let returns_rows = self.prepared.get(name).ok_or("26000")?.0 == "SELECT 1";
                put_parameter_description(&mut self.said, &[]);
                match returns_rows {
                    true => message(&mut self.said, b'T', |out| out.extend_from_slice(&[0, 0])),
                    false => put_no_data(&mut self.said),
                }
            }
            tag::CLOSE => {
                match Target::of_close(sent.body).unwrap() {
                    Target::Statement(name) => drop(self.prepared.remove(name)),
                    Target::Portal(name) => drop(self.portals.remove(name)),
                }
                put_close_complete(&mut self.said);
            }
            _ => {}
        }
        Ok(())
    }

    /// In a transaction that has failed only its end is taken.
    fn may_take(&self, sql: &str) -> Result<(), &'static str> {
        let is_refused =
            self.status == Status::Failed && !matches!(sql, "" | "COMMIT" | "ROLLBACK");
        if is_refused { Err("25P02") } else { Ok(()) }
    }

    fn runs(&mut self, sql: &str, path: &str, is_query: bool) -> Result<(), &'static str> {
        self.may_take(sql)?;
        if self.former_path.is_none() {
            self.former_path = Some(self.session_path.clone());
        }
        let completed = match sql {
            "SELECT 1" => {
                if is_query {
                    message(&mut self.said, b'T', |out| out.extend_from_slice(&[0, 0]));
                }
                message(&mut self.said, b'D', |out| out.extend_from_slice(path.as_bytes()));
                "SELECT 1"
            }
            "INSERT INTO t VALUES (1)" => {
                self.writes += 1;
                "INSERT 0 1"
            }
            "BEGIN" => {
                self.status = Status::InTransaction;
                "BEGIN"
            }
            "COMMIT" if self.status == Status::Failed => {
                self.undoes();
                "ROLLBACK"
            }
            "ROLLBACK" => {
                self.undoes();
                "ROLLBACK"
            }
            "DEALLOCATE ALL" => {
                self.prepared.clear();
                "DEALLOCATE ALL"
            }
            "COMMIT" => {
                self.status = Status::Idle;
                self.ends_transaction();
                "COMMIT"
            }
            "SET LOCAL search_path = a" => {
                self.local_path = Some("a".into());
                "SET"
            }
            "SET search_path = b" => {
                (self.session_path, self.local_path) = ("b".into(), None);
                "SET"
            }
            "COPY t FROM STDIN" => {
                message(&mut self.said, b'G', |out| out.extend_from_slice(&[0, 0, 0]));
                self.copying = Some(is_query);
                self.writes += 1;
                return Ok(());
            }
            "ALTER ROLE a LOGIN" => "ALTER ROLE",
            "LISTEN a" => "LISTEN",
            "SELECT 1/0" => return Err("22012"),
            other => panic!("what is {other:?}?"),
        };
        put_command_complete(&mut self.said, completed);
        Ok(())
    }

    fn fails(&mut self, code: &'static str) {
        Refusal::error(code, "no").encode(&mut self.said);
        match self.status {
            Status::Idle => self.undoes(),
            _ => self.status = Status::Failed,
        }
    }

    fn undoes(&mut self) {
        if let Some(former) = self.former_path.take() {
            self.session_path = former;
        }
        self.status = Status::Idle;
        self.ends_transaction();
    }

    fn ends_transaction(&mut self) {
        (self.local_path, self.former_path) = (None, None);
        self.portals.clear();
    }

    /// The end of a round, and of the transaction that it may have been.
    fn ends(&mut self) {
        if self.status == Status::Idle {
            self.ends_transaction();
        }
        put_ready_for_query(&mut self.said, self.status);
    }
}
