//! What works and is still worth a word.

use super::validate::is_of_this_machine;
use super::{AuthRule, From, Method, Settings};

impl Settings {
    /// What works and is still worth a word, each with its remedy.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        let reachable = self.listen.iter().find(|address| !is_of_this_machine(address));
        let encrypted = self.tls.as_ref().is_some_and(|tls| tls.required);
        if let Some(address) = reachable.filter(|_| !encrypted) {
            found.push(format!(
                "postgres.listen {address}: clients need not use TLS, so statements and rows can \
                 be read on the way; write required = true in [postgres.tls]"
            ));
        }
        found.extend(self.rules_worth_a_word());
        found.extend(self.users_that_cannot_log_in());
        let is_asked = self.auth_query.as_ref().is_some_and(|query| !query.database.is_empty());
        for name in self.console.admin_users.iter().chain(&self.console.stats_users) {
            if self.user(name).is_none() && !is_asked && self.auth.is_empty() {
                let cure = match self.auth_query {
                    Some(_) => "; auth-query is asked for the console with a database only",
                    None => "",
                };
                found.push(format!(
                    "postgres.console: {name} is no [[postgres.user]] and can't log in{cure}"
                ));
            }
        }
        found
    }

    fn rules_worth_a_word(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.auth.iter().any(|rule| rule.trust_strangers && rule.method == Method::Trust) {
            found.push(
                "postgres.auth: trust-strangers lets whoever reaches the port be any user"
                    .to_owned(),
            );
        }
        if self.auth.iter().any(|rule| rule.method == Method::Md5) {
            found.push(
                "postgres.auth: method = \"md5\" is weak, and PostgreSQL will drop it; have the \
                 passwords set anew under password_encryption = 'scram-sha-256'"
                    .to_owned(),
            );
        }
        if !self.auth.is_empty() && self.auth.iter().all(|rule| rule.method == Method::Reject) {
            found.push("postgres.auth: every rule rejects; nobody can log in".to_owned());
        }
        let last = self.auth.iter().position(fits_everyone).map_or(self.auth.len(), |at| at + 1);
        if last < self.auth.len() {
            found.push(format!(
                "postgres.auth number {last} fits every client, so those after it never decide; \
                 put it last"
            ));
        }
        found
    }

    /// Users of the file whose password no rule can ask for.
    fn users_that_cannot_log_in(&self) -> Vec<String> {
        let has = |method| self.auth.iter().any(|rule| rule.method == method);
        let by_password = [Method::ScramSha256, Method::ScramSha256Plus, Method::Md5]
            .into_iter()
            .chain([Method::Password])
            .any(has);
        let without_password = [Method::Cert, Method::Peer, Method::Trust].into_iter().any(has);
        let only_scram = !self.auth.is_empty() && !has(Method::Md5) && !has(Method::Password);
        let mut found = Vec::new();
        for user in &self.user {
            let name = &user.name;
            let known = user.password_file.is_some() || !user.password.is_empty();
            let asked = self.auth.is_empty() || by_password;
            if !known && !without_password && self.auth_query.is_none() {
                found.push(format!(
                    "postgres.user {name:?} has no password and can't log in; write password, or \
                     password-file"
                ));
            }
            if known && asked && only_scram && is_md5(user.password.reveal()) {
                found.push(format!(
                    "postgres.user {name:?} has an md5 verifier, which no rule of postgres.auth \
                     can check; have the password set anew, or write method = \"md5\""
                ));
            }
        }
        found
    }
}

/// Whether no rule after this one can fit.
fn fits_everyone(rule: &AuthRule) -> bool {
    let all = |names: &[String]| names.iter().any(|name| name == "all");
    rule.from == From::Any && rule.address.is_empty() && all(&rule.database) && all(&rule.user)
}

/// Whether a password is PostgreSQL's md5 verifier: `md5` and 32 hexadecimal digits.
fn is_md5(password: &str) -> bool {
    let digits = password.strip_prefix("md5").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}
