//! The parameters of a request: the URL's query string and, for `/query`, the form body.

use std::borrow::Cow;

/// The parameters that `/write` and `/api/v2/write` read, each empty where absent.
///
/// The first occurrence of a name wins, as `net/url`'s `Values.Get` has it.
#[derive(Debug, Default)]
pub struct WriteParameters<'a> {
    /// `db`, or the database half of `bucket`.
    pub db: Cow<'a, str>,
    /// `rp`.
    pub rp: Cow<'a, str>,
    /// `bucket`, of the 2.x API.
    pub bucket: Cow<'a, str>,
    /// `precision`.
    pub precision: Cow<'a, str>,
    /// `consistency`.
    pub consistency: Cow<'a, str>,
    /// `u`, the user's name.
    pub user: Cow<'a, str>,
    /// `p`.
    pub password: Cow<'a, str>,
}

impl<'a> WriteParameters<'a> {
    /// Reads what it knows from a URL's query string and ignores the rest.
    pub fn parse(query: &'a str) -> Self {
        let mut found = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let slot = match &*name {
                "db" => &mut found.db,
                "rp" => &mut found.rp,
                "bucket" => &mut found.bucket,
                "precision" => &mut found.precision,
                "consistency" => &mut found.consistency,
                "u" => &mut found.user,
                "p" => &mut found.password,
                _ => continue,
            };
            if slot.is_empty() {
                *slot = value;
            }
        }
        found
    }
}

/// All parameters of a `/query` request, in the order they were given: the form body first, then
/// the URL, which is the precedence of Go's `Request.FormValue`.
#[derive(Debug, Default, Clone)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Adds the pairs of an `application/x-www-form-urlencoded` text.
    pub fn extend(&mut self, text: &[u8]) {
        self.0.extend(form_urlencoded::parse(text).into_owned());
    }

    /// Adds a name and its value.
    pub fn push(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// The first value of that name; empty where there is none.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    /// The pairs a backend is to see with a query: all but the client's `q`, `u` and `p`.
    pub fn for_backend<'a>(
        &'a self,
        q: &'a str,
        use_of: AnswerUse,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let pairs = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let clients = pairs.filter(move |(name, _)| use_of.keeps(name));
        let own: &[(&str, &str)] = match use_of {
            AnswerUse::Passed | AnswerUse::Whole => &[],
            AnswerUse::Counted => &[("epoch", "ns")],
            AnswerUse::Fetched => &[("epoch", "ns"), ("chunked", "true"), ("chunk_size", "5000")],
            AnswerUse::Streamed => &[("epoch", "ns"), ("chunked", "true"), ("chunk_size", "1000")],
        };
        std::iter::once(("q", q)).chain(own.iter().copied()).chain(clients)
    }
}

/// Whom a backend's answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerUse {
    /// The client, in the form that it wants.
    Passed,
    /// Weir, which reads it as one document.
    Whole,
    /// Weir, which counts with its times: in nanoseconds.
    Counted,
    /// Weir, which reads its rows as they come.
    Fetched,
    /// The same where they go out as they come: little is held of them.
    Streamed,
}

impl AnswerUse {
    /// Whether a backend sees the client's parameter of this name.
    fn keeps(self, name: &str) -> bool {
        match name {
            "q" | "u" | "p" => false,
            _ if matches!(self, Self::Fetched | Self::Streamed) => matches!(name, "db" | "rp"),
            "chunked" | "chunk_size" => self == Self::Passed,
            "epoch" => self != Self::Counted,
            _ => true,
        }
    }
}

/// Splits a 2.x bucket into database and policy (empty: the default one).
///
/// # Errors
/// InfluxDB 1.8's own words (`services/httpd/handler.go`, `bucket2dbrp`).
pub fn bucket(bucket: &str) -> Result<(&str, &str), String> {
    match bucket.split_once('/') {
        None if bucket.is_empty() => Err(format!(
            "bucket name {bucket:?} is missing a slash; not in \"database/retention-policy\" format"
        )),
        None => Ok((bucket, "")),
        Some(("", _)) => {
            Err(format!("bucket name {bucket:?} is in db/rp form but has an empty database"))
        }
        Some(pair) => Ok(pair),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_wins_and_escapes_are_resolved() {
        let p = WriteParameters::parse("db=a%2Fb&db=c&precision=ms&p=x+y&unknown=1");
        assert_eq!((&*p.db, &*p.precision, &*p.password), ("a/b", "ms", "x y"));
    }

    #[test]
    fn credentials_are_not_forwarded() {
        let mut p = Parameters::default();
        p.extend(b"q=SELECT+1&db=x");
        p.extend(b"db=y&u=me&p=secret");
        assert_eq!(p.get("db"), "x");
        let seen = p.for_backend("SHOW", AnswerUse::Passed).collect::<Vec<_>>();
        assert_eq!(seen, [("q", "SHOW"), ("db", "x"), ("db", "y")]);
        p.extend(b"pretty=true&epoch=s&params={}");
        let own = [("q", "SHOW"), ("epoch", "ns"), ("chunked", "true"), ("chunk_size", "5000")];
        assert_eq!(p.for_backend("SHOW", AnswerUse::Fetched).take(4).collect::<Vec<_>>(), own);
        assert_eq!(p.for_backend("SHOW", AnswerUse::Fetched).count(), 6);
    }

    #[test]
    fn buckets() {
        assert_eq!(bucket("db"), Ok(("db", "")));
        assert_eq!(bucket("db/rp/x"), Ok(("db", "rp/x")));
        assert!(bucket("").is_err() && bucket("/rp").is_err());
    }
}
