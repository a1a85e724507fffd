//! `weir query`: runs a query on a server and shows the answer.

mod table;

use std::io::{IsTerminal, Read, Write};

use clap::{Args, ValueEnum};
use http_body_util::BodyExt;
use rustix::termios::tcgetwinsize;

use crate::exit::{BAD_NEWS, DONE, Failure, note};
use crate::remote::{self, Answer, Client, Documents, Server};
use table::Tables;

/// Rows of an answer's piece: what a table's columns are measured by.
const CHUNK_ROWS: &str = "5000";

/// What to run, and how to show it.
#[derive(Debug, Args)]
pub struct Command {
    /// The query; - reads it from standard input
    query: String,
    /// The name of the database
    #[arg(long, short, value_name = "NAME", default_value = "", hide_default_value = true)]
    db: String,
    /// The retention policy; without it the database's default
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    rp: String,
    /// How the answer is shown
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// How times are shown: rfc3339, or a number of h, m, s, ms, u or ns since 1970
    #[arg(long, value_enum, default_value_t = Precision::Rfc3339, hide_possible_values = true)]
    precision: Precision,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns, as wide as the terminal at most
    Table,
    /// CSV, as the server makes it
    Csv,
    /// JSON, as the server makes it
    Json,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Precision {
    Rfc3339,
    H,
    M,
    S,
    Ms,
    U,
    Ns,
}

impl Precision {
    /// As the parameter `epoch` has it.
    fn epoch(self) -> &'static str {
        match self {
            Self::Rfc3339 => "",
            Self::H => "h",
            Self::M => "m",
            Self::S => "s",
            Self::Ms => "ms",
            Self::U => "u",
            Self::Ns => "ns",
        }
    }
}

/// Runs the query; the result is bad news when one of its statements failed.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    remote::run(command.run(out))
}

impl Command {
    async fn run(&self, out: &mut dyn Write) -> Result<u8, Failure> {
        let mut query = self.query.clone();
        if query == "-" {
            query.clear();
            std::io::stdin()
                .read_to_string(&mut query)
                .map_err(|error| Failure::other(format!("can't read the query: {error}")))?;
        }
        let client = Client::new(&self.server)?;
        let mut pairs = vec![
            ("q", query.as_str()),
            ("db", &self.db),
            ("rp", &self.rp),
            ("epoch", self.precision.epoch()),
        ];
        match self.format {
            Format::Table => {
                pairs.extend([("chunked", "true"), ("chunk_size", CHUNK_ROWS)]);
                let body = client.query(&pairs, "application/json").await?;
                show(Documents::new(body), out).await
            }
            Format::Csv => {
                let mut body = client.query(&pairs, "application/csv").await?;
                while let Some(frame) = body.frame().await {
                    let frame = frame.map_err(|error| {
                        Failure::other(format!("the answer breaks off: {error}"))
                    })?;
                    out.write_all(frame.data_ref().map_or(&[][..], |bytes| bytes))?;
                }
                Ok(DONE)
            }
            Format::Json => {
                let body = client.query(&pairs, "application/json").await?;
                let body = remote::whole(body).await?;
                out.write_all(&body)?;
                let answer = serde_json::from_slice::<Answer>(&body).unwrap_or_default();
                Ok(if answer.error().is_some() { BAD_NEWS } else { DONE })
            }
        }
    }
}

async fn show(mut documents: Documents, out: &mut dyn Write) -> Result<u8, Failure> {
    let stdout = std::io::stdout();
    let size = if stdout.is_terminal() { tcgetwinsize(&stdout).ok() } else { None };
    let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
    let mut tables = Tables::new(out, width);
    let mut code = DONE;
    while let Some(answer) = documents.next().await? {
        for result in &answer.results {
            for message in &result.messages {
                note(&message.text);
            }
            for series in &result.series {
                tables.show(result.statement_id, series)?;
            }
        }
        if let Some(error) = answer.error() {
            note(error);
            code = BAD_NEWS;
        }
    }
    Ok(code)
}
