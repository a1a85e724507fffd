pub(crate) const NAME_MAX: usize = 100;
pub(crate) const CURSORS_MAX: usize = 64;
