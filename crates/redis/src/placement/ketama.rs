//! Ketama as twemproxy builds it: a circle of points, about 160 for each server.

use md5::{Digest, Md5};

/// How many points one MD5 sum gives.
const POINTS_A_SUM: usize = 4;
/// How many points a server of average weight gets.
const POINTS_A_SERVER: f32 = 160.0;
/// How much of a server's name and the sum's number is hashed, in bytes.
const NAME_BYTES_MAX: usize = 272;

/// A circle with at least one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    /// By value; those alike stand as they were made.
    points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    value: u32,
    member: usize,
}

/// One who gets points.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// What stands for it on the circle.
    pub name: &'a str,
    /// Its weight, above 0.
    pub weight: u32,
    /// Which member it is.
    pub member: usize,
}

impl Circle {
    /// `None` without entries. Where two points meet, the earlier entry has the key.
    pub fn new(entries: &[Entry<'_>]) -> Option<Self> {
        let total: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
        let mut points = Vec::new();
        for entry in entries {
            for number in 0..sums(entry.weight, total, entries.len()) {
                let mut name = format!("{}-{number}", entry.name).into_bytes();
                name.truncate(NAME_BYTES_MAX);
                let sum = Md5::digest(&name);
                points.extend(sum.chunks_exact(POINTS_A_SUM).map(|four| Point {
                    value: u32::from_le_bytes([four[0], four[1], four[2], four[3]]),
                    member: entry.member,
                }));
            }
        }
        points.sort_by_key(|point| point.value);
        (!points.is_empty()).then_some(Self { points })
    }

    /// Who has the first point at the hash or after it; after the last one the circle begins again.
    pub fn at(&self, hash: u32) -> usize {
        let found = self.points.partition_point(|point| point.value < hash);
        self.points[if found == self.points.len() { 0 } else { found }].member
    }
}

/// How many MD5 sums a server gets. The order of the operations and their precision are
/// twemproxy's: rounding decides over whole points.
fn sums(weight: u32, total: u64, servers: usize) -> u32 {
    let share = weight as f32 / total as f32;
    let exact = share * POINTS_A_SERVER / POINTS_A_SUM as f32 * servers as f32;
    (f64::from(exact) + 0.000_000_000_1) as f32 as u32
}
