//! The parameters of a MEMS store, as they stand in a TOML file and as the model wants them.

use std::collections::BTreeMap;

use moirai_units::{BLOCK_BYTES, Lbn, Nanos};
use serde::{Deserialize, Serialize};

use super::layout::MemsLayout;
use super::sled::{Sled, SledState};
use crate::ProfileError;
use crate::profile::{bad, within};

const PROFILES: [(&str, &str); 3] = [
    ("mems-g1", include_str!("../../profiles/mems-g1.toml")),
    ("mems-g2", include_str!("../../profiles/mems-g2.toml")),
    ("mems-g3", include_str!("../../profiles/mems-g3.toml")),
];

/// Bits of the sled's way at most, and tips: with them no count overflows.
const WAY_BITS_MAX: f64 = 1e6;
const TIPS_MAX: u32 = 1_000_000;

/// Places of which the average seek is worked out.
const AVERAGE_OF: u64 = 127;

/// The names of the built-in MEMS stores, sorted.
pub fn built_in_mems_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// What `kind` is in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemsKind {
    /// A MEMS store.
    #[default]
    Mems,
}

/// A profile's keys. A pair is of x and y.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemsProfileFile {
    /// `mems`: a file without it describes a disk.
    pub kind: MemsKind,
    /// What `sim:` URIs call it.
    pub name: String,
    /// The store in words.
    pub description: String,
    /// How far the sled moves.
    pub sled_nm: [f64; 2],
    /// The edge of a bit.
    pub bit_nm: f64,
    /// Bits of a sector of one tip, with its error correction.
    pub tip_sector_bits: u32,
    /// Bits of the servo burst before each.
    pub servo_bits: u32,
    /// Tips over which a block is striped.
    pub tips_per_block: u32,
    /// Tips that work.
    pub tips: u32,
    /// Tips that may be active at once: the power budget.
    pub active_tips: u32,
    /// Whether tips access data in both directions of y.
    pub bidirectional: bool,
    /// Whether every other track runs back.
    pub reversed_tracks: bool,
    /// Of the actuators.
    pub acceleration_m_per_s2: [f64; 2],
    /// Bits a second of one tip: the speed of the sled in y.
    pub tip_bits_per_s: f64,
    /// The sled's resonance, which settling is counted in.
    pub resonance_hz: f64,
    /// How many of its time constants settling takes.
    pub settle_constants: f64,
    /// The part of the actuators' acceleration that the springs give at the end of the way.
    pub spring_factor: f64,
    /// Command processing.
    pub command_ms: f64,
    /// The bus, in million bytes a second.
    pub bus_mb_per_s: f64,
    /// The blocks of writes that may wait in the store for the media.
    pub buffer_blocks: u64,
    /// The sled comes to rest after so long without requests.
    pub inactive_after_ms: f64,
    /// To begin again from there.
    pub startup_ms: f64,
    /// Where numbers come from, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

/// The parameters of a simulated MEMS store.
#[derive(Clone, Debug)]
pub struct MemsProfile {
    /// What it was made from.
    pub file: MemsProfileFile,
    /// Where blocks lie.
    pub layout: MemsLayout,
    /// How the sled moves.
    pub sled: Sled,
    /// Command processing.
    pub command: Nanos,
    /// A block on the bus.
    pub bus_block: Nanos,
    /// The servo burst and the sectors of a row.
    pub pass: Nanos,
    /// The sled comes to rest after so long without requests.
    pub inactive_after: Nanos,
    /// To begin again from there.
    pub startup: Nanos,
}

impl MemsProfile {
    /// The built-in profile `name`.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test reads every built-in profile")]
    pub fn built_in(name: &str) -> Option<MemsProfile> {
        let (_, text) = PROFILES.iter().find(|(known, _)| *known == name)?;
        Some(MemsProfile::parse(text).expect("a valid built-in profile"))
    }

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<MemsProfile, ProfileError> {
        let file: MemsProfileFile =
            toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        MemsProfile::new(file)
    }

    /// Checks a profile and works it out.
    pub fn new(file: MemsProfileFile) -> Result<MemsProfile, ProfileError> {
        let [x_nm, y_nm] = file.sled_nm;
        within("bit_nm", file.bit_nm, 0.1, 1e6)?;
        within("tip_sector_bits", f64::from(file.tip_sector_bits), 1.0, 1e6)?;
        within("servo_bits", f64::from(file.servo_bits), 0.0, 1e6)?;
        for way in file.sled_nm {
            within("sled_nm", way, file.bit_nm, file.bit_nm * WAY_BITS_MAX)?;
        }
        for acceleration in file.acceleration_m_per_s2 {
            within("acceleration_m_per_s2", acceleration, 1e-3, 1e9)?;
        }
        within("tip_bits_per_s", file.tip_bits_per_s, 1.0, 1e9)?;
        within("resonance_hz", file.resonance_hz, 1e-3, 1e9)?;
        within("settle_constants", file.settle_constants, 0.0, 1e3)?;
        within("spring_factor", file.spring_factor, 0.0, 0.99)?;
        within("command_ms", file.command_ms, 0.0, 1e4)?;
        within("bus_mb_per_s", file.bus_mb_per_s, 1e-3, f64::INFINITY)?;
        within("inactive_after_ms", file.inactive_after_ms, 0.0, 1e9)?;
        within("startup_ms", file.startup_ms, 0.0, 1e4)?;
        within("tips_per_block", f64::from(file.tips_per_block), 1.0, 1e6)?;
        within("tips", f64::from(file.tips), 1.0, f64::from(TIPS_MAX))?;
        within("buffer_blocks", file.buffer_blocks as f64, 1.0, 1e9)?;
        let parallelism = file.active_tips / file.tips_per_block;
        if parallelism == 0 || file.active_tips > file.tips {
            let (least, most) = (file.tips_per_block, file.tips);
            let problem =
                format!("{} is not between {least} (a block) and {most}", file.active_tips);
            return Err(bad("active_tips", problem));
        }
        let row_bits = file.servo_bits + file.tip_sector_bits;
        let rows = ((y_nm / file.bit_nm).floor() as u32).saturating_sub(file.servo_bits) / row_bits;
        if rows == 0 {
            return Err(bad("sled_nm", "no sector fits into the way in y"));
        }
        let layout = MemsLayout {
            parallelism,
            tracks: file.tips / file.tips_per_block / parallelism,
            cylinders: (x_nm / file.bit_nm).floor() as u32,
            rows,
            row_bits,
            servo_bits: file.servo_bits,
            reverses: file.reversed_tracks,
        };
        let sled = Sled {
            acceleration: file.acceleration_m_per_s2,
            spring_factor: file.spring_factor,
            half_way_m: [x_nm / 2e9, y_nm / 2e9],
            speed: file.tip_bits_per_s * file.bit_nm / 1e9,
            settle_s: file.settle_constants / (std::f64::consts::TAU * file.resonance_hz),
        };
        Ok(MemsProfile {
            command: Nanos::from_ms(file.command_ms),
            bus_block: Nanos((BLOCK_BYTES as f64 * 1e3 / file.bus_mb_per_s).round() as u64),
            pass: seconds(f64::from(row_bits) / file.tip_bits_per_s),
            inactive_after: Nanos::from_ms(file.inactive_after_ms),
            startup: Nanos::from_ms(file.startup_ms),
            layout,
            sled,
            file,
        })
    }

    /// This one with another power budget.
    pub fn with_active_tips(&self, active_tips: u32) -> Result<MemsProfile, ProfileError> {
        MemsProfile::new(MemsProfileFile { active_tips, ..self.file.clone() })
    }

    fn metres(&self, bits: i64) -> f64 {
        bits as f64 * self.file.bit_nm / 1e9
    }

    fn x_m(&self, cylinder: u32) -> f64 {
        self.metres(i64::from(cylinder) - i64::from(self.layout.cylinders / 2))
    }

    /// The way of the sled: the longer of those in x and y, which it goes at the same time.
    fn seek(&self, from: &SledState, to: &SledState) -> Nanos {
        if from == to {
            return Nanos::ZERO;
        }
        let x_s = self.sled.seek_x_s(self.x_m(from.cylinder), self.x_m(to.cylinder));
        let y = |state: &SledState| (self.metres(state.y_bits), state.is_upward);
        seconds(x_s.max(self.sled.seek_y_s(y(from), y(to))))
    }

    /// To the row of a block, in the direction in which the pass begins earlier: the seek, and where the sled is when the pass begins
    /// and ends.
    pub(super) fn seek_to(&self, from: &SledState, lbn: Lbn) -> (Nanos, SledState, SledState) {
        let place = self.layout.place(lbn);
        let way = |is_upward| {
            let (start, end) = self.layout.pass(&place, is_upward);
            (self.seek(from, &start), start, end)
        };
        let up = way(true);
        if !self.file.bidirectional {
            return up;
        }
        let down = way(false);
        if up.0 < down.0 { up } else { down }
    }

    /// The average way between rows at random places: between all of some that lie evenly over the sled.
    #[must_use]
    pub fn average_seek(&self) -> Nanos {
        let step = (self.layout.capacity().0 / AVERAGE_OF).max(1);
        let places: Vec<Lbn> = (0..AVERAGE_OF)
            .map(|at| Lbn((at * step + step / 2) % self.layout.capacity().0))
            .collect();
        let mut total = 0;
        for from in &places {
            let (_, _, end) = self.seek_to(&self.layout.centre(), *from);
            total += places.iter().map(|to| self.seek_to(&end, *to).0.0).sum::<u64>();
        }
        Nanos(total / (AVERAGE_OF * AVERAGE_OF))
    }

    /// What crossing a boundary between tracks costs, in rows that could have been accessed meanwhile: the sled turns round, and
    /// moves to the next cylinder where the last track of one ends.
    #[must_use]
    pub fn switch_rows(&self, lbn: Lbn) -> f64 {
        let track = self.layout.track(lbn);
        let next = track.end();
        if next.0 >= self.layout.capacity().0 {
            return 0.0;
        }
        let last = self.layout.place(Lbn(next.0 - 1));
        // It comes from the row before, so that the direction is that of the track.
        let before = self.layout.place(Lbn(track.first.0));
        let is_upward = !self.file.bidirectional || last.row >= before.row;
        let (_, end) = self.layout.pass(&last, is_upward);
        self.seek_to(&end, next).0.0 as f64 / self.pass.0.max(1) as f64
    }

    /// Where the sled is after some time without requests: it sweeps on from end to end.
    pub(super) fn swept(&self, from: &SledState, idle: Nanos) -> SledState {
        let bits = self.layout.track_bits();
        let edge = self.metres(bits / 2);
        let sweep_s = bits as f64 / self.file.tip_bits_per_s;
        let half_s = sweep_s + self.sled.turnaround_s(edge, true);
        // How long ago it would have begun the sweep at an end.
        let since_edge =
            if from.is_upward { from.y_bits + bits / 2 } else { bits / 2 - from.y_bits };
        let passed_s = since_edge as f64 / self.file.tip_bits_per_s + idle.as_s();
        let sweeps = (passed_s / half_s).floor();
        let is_turned = (sweeps as u64) % 2 == 1;
        let in_sweep = ((passed_s - sweeps * half_s) * self.file.tip_bits_per_s) as i64;
        let is_upward = from.is_upward != is_turned;
        let way = in_sweep.min(bits);
        let y_bits = if is_upward { way - bits / 2 } else { bits / 2 - way };
        match idle {
            Nanos::ZERO => *from,
            _ => SledState { cylinder: from.cylinder, y_bits, is_upward },
        }
    }
}

fn seconds(s: f64) -> Nanos {
    Nanos((s * 1e9).round() as u64)
}
