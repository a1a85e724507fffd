//! Commands that the operator has named, beside Weir's own list.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::commands::{self, Do, Keys, Numbered, Spec, capitals};
use crate::settings::{COMMAND_BYTES_MAX, CommandSettings};

/// Commands that were named, since the process began: few, and kept for as long as it runs, as
/// Weir's own list is, since clients may be in the midst of one when another file is put in force.
static KEPT: Mutex<Vec<&'static Spec>> = Mutex::new(Vec::new());

/// So many of them are counted by themselves, over all the time that the process runs.
const COUNTED_MAX: usize = 256;

/// Commands that are in force beside the list.
#[derive(Debug, Default)]
pub struct NamedCommands(HashMap<Box<[u8]>, (Numbered, bool)>);

/// How many numbers there are for commands: one more than have names.
pub fn numbers() -> usize {
    commands::all().len() + COUNTED_MAX + 1
}

/// The name of a command by its number: those that were named are behind the list.
pub fn name_of(number: usize) -> Option<&'static str> {
    if let Some(spec) = commands::all().get(number) {
        return Some(spec.name);
    }
    let at = number.checked_sub(commands::all().len()).filter(|at| *at < COUNTED_MAX)?;
    let all = KEPT.lock();
    all.get(at).map(|spec| spec.name)
}

impl NamedCommands {
    /// Those of the settings, which were found to be right.
    pub fn new(settings: &[CommandSettings]) -> Self {
        let named = |of: &CommandSettings| {
            let (spec, number) = kept(of);
            (spec.name.as_bytes().into(), ((spec, number), of.admin))
        };
        Self(settings.iter().map(named).collect())
    }

    /// A command by its name: of the list, else one that was named.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<Numbered> {
        commands::find_numbered(name).or_else(|| Some(self.get(name)?.0))
    }

    /// Whether a command is for administrators because the operator says so.
    #[inline]
    pub fn is_for_admins(&self, spec: &Spec) -> bool {
        !self.0.is_empty() && self.0.get(spec.name.as_bytes()).is_some_and(|(_, admin)| *admin)
    }

    fn get(&self, name: &[u8]) -> Option<&(Numbered, bool)> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(capitals::<COMMAND_BYTES_MAX>(name)?.get(..name.len())?)
    }
}

fn kept(of: &CommandSettings) -> Numbered {
    let keys = match of.first_key {
        0 => Keys::None,
        first => Keys::Range { first, last: of.last_key, step: of.key_step.max(1) },
    };
    let what = if of.reads { Do::Read } else { Do::Write };
    let name = of.name.to_ascii_uppercase();
    let mut all = KEPT.lock();
    let is = |spec: &&&'static Spec| spec.name == name && (spec.keys, spec.what) == (keys, what);
    let number = |at: usize| commands::all().len() + at;
    if let Some(at) = all.iter().position(|spec| is(&spec)) {
        return (all[at], number(at));
    }
    let spec = Spec { name: Box::leak(name.into_boxed_str()), arity: -1, keys, what };
    let spec: &'static Spec = Box::leak(Box::new(spec));
    all.push(spec);
    (spec, number(all.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(lines: &str) -> NamedCommands {
        NamedCommands::new(&[toml::from_str(lines).unwrap()])
    }

    #[test]
    fn a_named_command_is_found_and_the_list_comes_first() {
        let all = named("name = \"json.get\"\nreads = true\nadmin = true");
        let (spec, number) = all.find(b"Json.Get").unwrap();
        assert_eq!((name_of(number), name_of(0)), (Some("JSON.GET"), Some("ACL")));
        assert_eq!(name_of(numbers() - 1), None);
        assert_eq!((spec.name, spec.what), ("JSON.GET", Do::Read));
        assert!(all.is_for_admins(spec) && !all.is_for_admins(commands::find(b"GET").unwrap()));
        assert_eq!(all.find(b"get").unwrap().0.name, "GET");
        assert!(all.find(b"JSON.SET").is_none() && all.find(&[b'x'; 999]).is_none());
        // The same again is the same, so that reloads take no memory.
        let again = named("name = \"JSON.GET\"\nreads = true");
        assert!(std::ptr::eq(again.find(b"json.get").unwrap().0, spec));
        assert!(NamedCommands::default().find(b"json.get").is_none());
    }
}
