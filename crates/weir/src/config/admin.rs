//! `[admin]`: the port that an operator, a load balancer and Prometheus ask.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::secret::Secret;

/// `[admin]`: the port an operator and a load balancer ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Where it listens, as `address:port`; `""` is nowhere. Without `[[admin.user]]` and `token`
    /// whoever reaches it can read the state and take a CPU profile, so give it these and TLS
    /// where other machines reach it.
    pub listen: String,
    /// A certificate and its key: with it the port speaks TLS only. A reload reads both anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<flow::tls::Settings>,
    /// Names by which browsers and programs reach the port where it listens on loopback, besides
    /// `localhost` and IP addresses, as behind a proxy that passes `Host` on. A request for
    /// another name hears 403: it may come from a web page whose own name was made to point here.
    pub hosts: Vec<String>,
    /// A bearer token for `/metrics`, `/status` and whatever else only reads the state, as
    /// Prometheus and `weir status` send it. It takes no CPU profiles.
    pub token: Secret,
    /// A file whose first line is the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The directory of the page's events and history, which a restart keeps: at most 8 MiB.
    /// Absent: `admin` in `journal.dir`; without the InfluxDB gateway `admin` in the service's
    /// `StateDirectory`, and where there is none, memory alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Who may look at the page and ask the port. Without any entry, and without a token,
    /// everybody may.
    pub user: Vec<UserSettings>,
}

/// `[[admin.user]]`: one who may look at the page, by HTTP's Basic authentication.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UserSettings {
    /// The name that the browser sends.
    pub name: String,
    /// The password's argon2 hash, as `weir hash-password` prints it.
    #[serde(skip_serializing)]
    pub password: String,
    /// May take CPU profiles, too.
    #[serde(default)]
    pub admin: bool,
}

impl std::fmt::Debug for UserSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("UserSettings");
        shown.field("name", &self.name).field("admin", &self.admin).finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8088".to_owned(),
            tls: None,
            hosts: Vec::new(),
            token: Secret::default(),
            token_file: None,
            dir: None,
            user: Vec::new(),
        }
    }
}

impl Settings {
    /// The address to listen on; `None` where the port is off.
    ///
    /// # Errors
    /// What was written is not an address; the text says what to write instead.
    pub fn address(&self) -> Result<Option<SocketAddr>, String> {
        if self.listen.is_empty() {
            return Ok(None);
        }
        let wrong = |_| {
            let listen = &self.listen;
            format!("admin.listen = {listen:?} is not an address; write \"127.0.0.1:8088\" or \"\"")
        };
        self.listen.parse().map(Some).map_err(wrong)
    }

    /// The bearer token, read from its file where one is named; `None` where there is none.
    ///
    /// # Errors
    /// The file can't be read, or its first line is empty.
    pub fn bearer(&self) -> Result<Option<Secret>, String> {
        let token = self.token.or_from(self.token_file.as_deref());
        let token = token.map_err(|error| format!("admin.token-file: {error}"))?;
        match &self.token_file {
            Some(file) if token.is_empty() => {
                let file = file.display();
                Err(format!("admin.token-file: the first line of {file} is empty; write the token"))
            }
            _ => Ok(Some(token).filter(|token| !token.is_empty())),
        }
    }

    /// Whether the port asks who somebody is.
    pub fn has_logins(&self) -> bool {
        !self.user.is_empty() || !self.token.is_empty() || self.token_file.is_some()
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn validate(&self) -> Result<(), String> {
        self.address()?;
        if !self.token.is_empty() && self.token_file.is_some() {
            return Err("admin has both token and token-file; remove one".to_owned());
        }
        if let Some(host) = self.hosts.iter().find(|host| !is_name(host)) {
            return Err(format!(
                "admin.hosts: {host:?} is not a name; write \"weir.example.com\", without a port"
            ));
        }
        let mut names = HashSet::new();
        for user in &self.user {
            let name = &user.name;
            let what = if name.is_empty() || name.contains(':') {
                "name must not be empty, nor have a colon, which HTTP can't send"
            } else if !names.insert(name) {
                "is there twice"
            } else if argon2::PasswordHash::new(&user.password).is_err() {
                "password must be a hash; `weir hash-password` makes one"
            } else {
                continue;
            };
            return Err(format!("admin.user {name:?}: {what}"));
        }
        Ok(())
    }
}

fn is_name(host: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !host.is_empty() && host.bytes().all(is_fit)
}

#[cfg(test)]
mod tests {
    use units::secret::Secret;

    use super::{Settings, UserSettings};

    #[test]
    fn an_empty_address_is_no_port() {
        let settings = |listen: &str| Settings { listen: listen.to_owned(), ..Settings::default() };
        assert_eq!(settings("").address(), Ok(None));
        assert!(settings("[::1]:8088").address().unwrap().is_some());
        assert!(settings("8088").address().is_err());
    }

    #[test]
    fn what_lets_nobody_in_is_refused() {
        let user = |name: &str, password: &str| UserSettings {
            name: name.to_owned(),
            password: password.to_owned(),
            admin: false,
        };
        let of = |user: &[UserSettings]| Settings { user: user.to_vec(), ..Settings::default() };
        let refused = |settings: &Settings| settings.validate().unwrap_err();
        assert!(refused(&of(&[user("ann", "plain")])).contains("weir hash-password"));
        assert!(refused(&of(&[user("a:b", "x")])).contains("colon"));
        let hash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHRzYWx0c2FsdA";
        assert!(refused(&of(&[user("a", hash), user("a", hash)])).contains("twice"));
        assert_eq!(of(&[user("a", hash)]).validate(), Ok(()));
        let hosts = Settings { hosts: vec!["weir:8088".to_owned()], ..Settings::default() };
        assert!(refused(&hosts).contains("without a port"));
        let token = Some("/none".into());
        let both =
            Settings { token: Secret::new("t"), token_file: token.clone(), ..Settings::default() };
        assert!(refused(&both).contains("remove one"));
        let file = Settings { token_file: token, ..Settings::default() };
        assert!(file.has_logins() && file.bearer().is_err());
        assert_eq!(Settings::default().bearer(), Ok(None));
    }
}
