//! A repeatable random generator, and values that databases may treat differently.

/// A splitmix64 generator: the same seed gives the same numbers on every machine.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub(crate) fn ms(&mut self, most: i64) -> i64 {
        i64::try_from(self.next() >> 1).unwrap() % most.max(1)
    }

    /// Returns a free text, with characters that need care.
    pub(crate) fn text(&mut self) -> String {
        let long = "a long text that continues… ".repeat(400);
        let texts = [
            "plain",
            "",
            " ",
            "NUL \0 in it",
            "\0",
            "😀🏽 emoji",
            "it's \"quoted\"",
            "\\ $1 ?1 {x} %s",
            "ÄÖÜ äöü ß",
            "e\u{301} and é",
            "two\nlines\ttab",
            "\u{10FFFF}",
            "null",
            "100%_",
            &long,
        ];
        (*self.pick(&texts)).to_owned()
    }

    /// Returns a run id. A collation other than by bytes would sort the ids differently or treat some as equal.
    pub(crate) fn run_id(&mut self) -> String {
        (*self.pick(&RUN_IDS)).to_owned()
    }

    /// Returns a time, in most cases near `now`. Odd numbers above 2^53 have no exact floating-point representation.
    pub(crate) fn instant(&mut self, now: i64) -> i64 {
        match self.below(20) {
            0 => (1 << 53) + 1,
            1 => i64::MAX,
            2 => 0,
            3 => now - self.ms(now.min(5000)),
            4..=7 => now + self.ms(40_000),
            _ => now,
        }
    }
}

pub(crate) const TENANTS: [&str; 2] = ["default", "Übermorgen"];

pub(crate) const RUN_IDS: [&str; 16] =
    ["a", "A", "b", "B", "ä", "Ä", "z", "Z", "é", "e\u{301}", "10", "9", "_", "a b", "😀", "ﬀ"];

/// Threads without runs.
pub(crate) const OTHER_THREADS: [&str; 6] = ["t", "T", "ü", "it's", "%_", "😀 thread"];
