//! What a connection begins with: the password, the database, and a question that shows whether
//! somebody speaks Redis's protocol there.

use wire::resp::put_command;

use super::{Pipeline, RedisError};
use crate::recorder::Kind;
use crate::url::Url;
use crate::workload::{Greeting, Reader as _, Refused};

/// What is said on a connection before its first command.
#[derive(Debug, Clone)]
pub(super) struct Login {
    bytes: Vec<u8>,
    commands: u32,
}

impl Login {
    /// That of a URL.
    pub(super) fn new(url: &Url) -> Result<Self, RedisError> {
        let wrong = || RedisError::Database(url.target().to_owned());
        let database = match url.target().trim_start_matches('/') {
            "" => 0_u32,
            number => number.parse().map_err(|_| wrong())?,
        }
        .to_string();
        let mut login = Self { bytes: Vec::new(), commands: 0 };
        match (url.user(), url.password()) {
            (Some(user), Some(password)) => login.put(&["AUTH", user, password]),
            (None, Some(password)) => login.put(&["AUTH", password]),
            (_, None) => {}
        }
        if database != "0" {
            login.put(&["SELECT", &database]);
        }
        login.put(&["PING"]);
        Ok(login)
    }

    fn put(&mut self, words: &[&str]) {
        put_command(&mut self.bytes, words.iter());
        self.commands += 1;
    }

    pub(super) fn begin(&self) -> Box<dyn Greeting> {
        let mut answers = Pipeline::new(self.commands);
        answers.begin(0);
        Box::new(UnderWay { bytes: self.bytes.clone(), answers })
    }
}

struct UnderWay {
    /// What is to be sent.
    bytes: Vec<u8>,
    answers: Pipeline,
}

impl Greeting for UnderWay {
    fn step(&mut self, came: &[u8], out: &mut Vec<u8>) -> Result<bool, Refused> {
        out.append(&mut self.bytes);
        if came.is_empty() {
            return Ok(false);
        }
        let answer = self.answers.read(came).map_err(|error| Refused(error.to_string()))?;
        match answer.map(|answer| answer.kind) {
            None => Ok(false),
            Some(Kind::Succeeded) => Ok(true),
            Some(_) => Err(Refused(self.answers.error())),
        }
    }
}
