//! Chaos: faults that strike by chance, with a seed, so that a run can be repeated. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, FaultRule};

/// What strikes, and how often. JSON: `{"seed": 42, "rate": 0.2, "faults": ["drop_after"], "ms": 300}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChaosPlan {
    /// Equal seeds and equal orders of requests give equal faults.
    #[serde(default)]
    pub seed: u64,
    /// The share of POSTs that are hit, from 0 to 1; replays are never hit. 0 switches chaos off.
    pub rate: f64,
    /// The faults to choose from, all alike.
    #[serde(default = "transient")]
    pub faults: Vec<Fault>,
    /// Milliseconds of a delay or a hang. JSON name: `ms`.
    #[serde(default = "brief", rename = "ms")]
    pub delay_ms: u64,
}

/// The faults that a good client gets over by sending again with the same key.
fn transient() -> Vec<Fault> {
    vec![
        Fault::Delay,
        Fault::DropBefore,
        Fault::DropAfter,
        Fault::Error503,
        Fault::GarbageAfter,
    ]
}

fn brief() -> u64 {
    100
}

impl ChaosPlan {
    /// Why this plan cannot be carried out, if so.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.rate) {
            return Err("rate is a number from 0 to 1".to_owned());
        }
        if self.rate > 0.0 && self.faults.is_empty() {
            return Err("faults names at least one fault".to_owned());
        }
        Ok(())
    }
}

/// The plan, and what it has done so far. Serialises to the JSON of `GET /_mock/chaos`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chaos {
    /// The plan.
    #[serde(flatten)]
    pub plan: ChaosPlan,
    /// How many POSTs could have been hit.
    pub posts: u64,
    /// How many were hit, by fault.
    pub injected: BTreeMap<Fault, u64>,
    #[serde(skip)]
    state: u64,
}

impl Chaos {
    /// A plan at its beginning.
    pub(super) fn new(plan: ChaosPlan) -> Self {
        Self {
            state: plan.seed,
            plan,
            posts: 0,
            injected: BTreeMap::new(),
        }
    }

    /// Throws the dice for one POST. Two numbers are drawn each time, so that the rate alone decides who is hit.
    pub(super) fn strike(&mut self) -> Option<FaultRule> {
        if self.plan.rate <= 0.0 {
            return None;
        }
        self.posts += 1;
        let (chance, choice) = (self.draw(), self.draw());
        // 53 bits are what a double holds exactly.
        let chance = (chance >> 11) as f64 / (1_u64 << 53) as f64;
        if chance >= self.plan.rate {
            return None;
        }
        let count = u64::try_from(self.plan.faults.len()).ok()?;
        let place = usize::try_from(choice.checked_rem(count)?).ok()?;
        let fault = *self.plan.faults.get(place)?;
        *self.injected.entry(fault).or_default() += 1;
        Some(FaultRule {
            delay_ms: self.plan.delay_ms,
            ..FaultRule::once(fault)
        })
    }

    /// SplitMix64: its sequence is fixed for ever, whatever becomes of the random number crates.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, rate: f64) -> (Vec<Option<Fault>>, Chaos) {
        let mut chaos = Chaos::new(ChaosPlan {
            seed,
            rate,
            faults: vec![Fault::DropAfter, Fault::Error503],
            delay_ms: 0,
        });
        let hits = (0..1000).map(|_| chaos.strike().map(|rule| rule.fault));
        (hits.collect(), chaos)
    }

    #[test]
    fn a_seed_fixes_who_is_hit_and_by_what() {
        let (hits, _) = run(42, 0.2);
        assert_eq!(hits, run(42, 0.2).0);
        assert_ne!(hits, run(43, 0.2).0);
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // The first outputs of SplitMix64 for the seed 1234567, as its author's C code prints them.
        let mut chaos = run(1_234_567, 0.0).1;
        assert_eq!(
            [chaos.draw(), chaos.draw()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn the_rate_is_kept_and_every_fault_gets_its_share() {
        let table = [(0.0, 0..=0), (0.2, 160..=240), (1.0, 1000..=1000)];
        for (rate, expected) in table {
            let (hits, chaos) = run(7, rate);
            let struck = hits.iter().flatten().count();
            assert!(expected.contains(&struck), "{rate}: {struck}");
            let counted: u64 = chaos.injected.values().sum();
            assert_eq!(usize::try_from(counted).unwrap(), struck, "{rate}");
            if rate > 0.0 {
                assert_eq!(chaos.injected.len(), 2, "{rate}");
            }
        }
    }
}
