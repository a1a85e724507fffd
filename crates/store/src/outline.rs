//! What is known of points without reading them.

use crate::scan::TimeRange;

/// Two values of one type that no value is outside of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// The lower and upper bound of floats.
    Float(f64, f64),
    /// The lower and upper bound of integers.
    Integer(i64, i64),
    /// The lower and upper bound of unsigned integers.
    Unsigned(u64, u64),
}

impl Bounds {
    /// The bounds of both; `None` where they are of different types.
    pub(crate) fn hull(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Float(a, b), Self::Float(c, d)) => Some(Self::Float(a.min(c), b.max(d))),
            (Self::Integer(a, b), Self::Integer(c, d)) => Some(Self::Integer(a.min(c), b.max(d))),
            (Self::Unsigned(a, b), Self::Unsigned(c, d)) => {
                Some(Self::Unsigned(a.min(c), b.max(d)))
            }
            _ => None,
        }
    }
}

/// What is known of a field in neighbouring points of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// No point is outside of these times.
    pub time: TimeRange,
    /// How many points have a value, where that is known: nothing else has points of these times,
    /// and nothing of them was deleted.
    pub count: Option<u64>,
    /// What no value is outside of, where that is known.
    pub bounds: Option<Bounds>,
}

/// Makes pieces of several sources, which may share times, into pieces that share none.
pub(crate) fn combined(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| piece.time);
    if pieces.windows(2).all(|two| two[0].time.max < two[1].time.min) {
        return pieces;
    }
    let ends = pieces.iter().filter_map(|piece| piece.time.max.checked_add(1));
    let mut cuts: Vec<i64> = pieces.iter().map(|piece| piece.time.min).chain(ends).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let lasts = cuts.iter().skip(1).map(|next| next - 1).chain([i64::MAX]);
    let spans = cuts.iter().zip(lasts).map(|(&min, max)| TimeRange { min, max });
    let mut waiting = pieces.into_iter().peekable();
    let mut here: Vec<Piece> = Vec::new();
    let mut answer = Vec::new();
    for time in spans {
        here.retain(|piece| piece.time.max >= time.min);
        while let Some(piece) = waiting.next_if(|piece| piece.time.min <= time.min) {
            here.push(piece);
        }
        match here.as_slice() {
            [] => {}
            [one] if one.time == time => answer.push(*one),
            several => {
                let bounds = several.iter().map(|piece| piece.bounds);
                let bounds = bounds.reduce(|a, b| a?.hull(b?)).flatten();
                answer.push(Piece { time, count: None, bounds });
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(min: i64, max: i64, count: Option<u64>, bounds: Option<(i64, i64)>) -> Piece {
        let bounds = bounds.map(|(least, most)| Bounds::Integer(least, most));
        Piece { time: TimeRange { min, max }, count, bounds }
    }

    #[test]
    fn pieces_that_share_no_times_stay_as_they_are() {
        let pieces = vec![
            piece(5, 9, Some(2), Some((0, 7))),
            piece(1, 4, Some(3), Some((1, 2))),
            piece(i64::MAX, i64::MAX, None, None),
        ];
        let sorted = vec![pieces[1], pieces[0], pieces[2]];
        assert_eq!(combined(pieces), sorted);
    }

    #[test]
    fn of_shared_times_only_the_bounds_are_known() {
        let pieces = vec![
            piece(0, 9, Some(5), Some((1, 2))),
            piece(20, i64::MAX, Some(3), Some((7, 8))),
            piece(5, 14, Some(4), Some((-3, 1))),
            piece(30, 30, Some(1), None),
        ];
        let wanted = [
            piece(0, 4, None, Some((1, 2))),
            piece(5, 9, None, Some((-3, 2))),
            piece(10, 14, None, Some((-3, 1))),
            piece(20, 29, None, Some((7, 8))),
            piece(30, 30, None, None),
            piece(31, i64::MAX, None, Some((7, 8))),
        ];
        assert_eq!(combined(pieces), wanted);
    }
}
