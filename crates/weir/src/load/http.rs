//! What a load of HTTP is made of.

use clap::Args;
use meter::http::{Http, Request, header};
use meter::url::Url;

use crate::exit::Failure;

/// What each request is.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub struct RequestOptions {
    /// The method; without it GET
    #[arg(long, short = 'X', value_name = "NAME")]
    pub method: Option<String>,
    /// A header, as 'Name: value'; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER", value_parser = header)]
    pub header: Vec<(String, String)>,
    /// The body; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
}

impl RequestOptions {
    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let Self { method, header, body } = self;
        let all = [
            ("--method", method.is_some()),
            ("--header", !header.is_empty()),
            ("--body", body.is_some()),
        ];
        all.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The workload for that server.
    pub fn workload(&self, url: &Url) -> Result<Http, Failure> {
        let body = self.body.as_deref().unwrap_or_default();
        let body = match body.strip_prefix('@') {
            None => body.to_owned().into_bytes(),
            Some(file) => std::fs::read(file)
                .map_err(|error| Failure::other(format!("can't read the body {file}: {error}")))?,
        };
        let method = self.method.clone().unwrap_or_else(|| "GET".to_owned());
        let request = Request { method, headers: self.header.clone(), body };
        Http::new(url, &request).map_err(Failure::other)
    }
}
