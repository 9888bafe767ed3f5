//! How the sled moves: actuators of constant force, springs that pull it to the centre, and a settling time.
//!
//! With springs the motion is harmonic, and all times are exact: with acceleration a of the actuators and a spring that gives
//! the part s of it at half the sled's way h, the sled obeys x'' = a - w^2 x, with w^2 = a s / h.

/// Where the sled is, and which way it moves in y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SledState {
    pub(super) cylinder: u32,
    /// From the centre.
    pub(super) y_bits: i64,
    pub(super) is_upward: bool,
}

/// The moving part. Lengths are in metres from the centre, times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Sled {
    /// Of the actuators, in x and y: m/s^2.
    pub acceleration: [f64; 2],
    /// The part of these that the springs give at the end of the sled's way, below 1.
    pub spring_factor: f64,
    /// The way from the centre to the end, in x and y.
    pub half_way_m: [f64; 2],
    /// Of an access, in y: m/s.
    pub speed: f64,
    /// After a move in x.
    pub settle_s: f64,
}

impl Sled {
    /// The acceleration that the springs give for each metre.
    fn spring(&self, axis: usize) -> f64 {
        let (acceleration, half) = (self.acceleration(axis), self.half_way_m.get(axis));
        acceleration * self.spring_factor / half.copied().unwrap_or(1.0)
    }

    fn acceleration(&self, axis: usize) -> f64 {
        self.acceleration.get(axis).copied().unwrap_or(1.0)
    }

    /// From rest to rest in x, settled.
    #[must_use]
    pub fn seek_x_s(&self, from: f64, to: f64) -> f64 {
        if from == to { 0.0 } else { self.seek_s(0, from, to, 0.0) + self.settle_s }
    }

    /// In y, from one place and direction at the speed of an access to another: it turns round where the way leads the other way
    /// than it moves, and where it is to move the other way in the end.
    #[must_use]
    pub fn seek_y_s(&self, (from, from_up): (f64, bool), (to, to_up): (f64, bool)) -> f64 {
        let turn = |at: f64, is_upward: bool| self.turnaround_s(at, is_upward);
        if from == to {
            // It is back at its place when it has turned round twice.
            return match from_up == to_up {
                true => turn(from, from_up) + turn(from, !from_up),
                false => turn(from, from_up),
            };
        }
        let goes_up = to > from;
        let mut time = self.seek_s(1, from, to, self.speed);
        if from_up != goes_up {
            time += turn(from, from_up);
        }
        if to_up != goes_up {
            time += turn(to, goes_up);
        }
        time
    }

    /// To stop and be back with the same speed the other way.
    #[must_use]
    pub fn turnaround_s(&self, at: f64, is_upward: bool) -> f64 {
        let (acceleration, spring) = (self.acceleration(1), self.spring(1));
        let at = if is_upward { at } else { -at };
        if spring == 0.0 {
            return 2.0 * self.speed / acceleration;
        }
        let w = spring.sqrt();
        2.0 * (self.speed / w).atan2(at + acceleration / spring) / w
    }

    /// Along an axis, with the same speed at both ends: the actuators pull one way and then the other. They change where the
    /// energy that the first part gives is what the second takes.
    fn seek_s(&self, axis: usize, from: f64, to: f64, speed: f64) -> f64 {
        let (from, to) = if to >= from { (from, to) } else { (-from, -to) };
        let (acceleration, spring) = (self.acceleration(axis), self.spring(axis));
        let change = (from + to) / 2.0 + spring * (to * to - from * from) / (4.0 * acceleration);
        let part = |from: f64, to: f64| accelerate_s(acceleration, spring, from, to, speed);
        // The second part is the first of the way back, in the mirror.
        part(from, change) + part(-to, -change)
    }
}

/// From one place to a higher one, with `speed` at first, while the actuators pull upward.
fn accelerate_s(acceleration: f64, spring: f64, from: f64, to: f64, speed: f64) -> f64 {
    if spring == 0.0 {
        let way = to - from;
        return ((speed * speed + 2.0 * acceleration * way).sqrt() - speed) / acceleration;
    }
    // x'' = -w^2 (x - c): a swing around c, which lies beyond the sled's way.
    let (w, centre) = (spring.sqrt(), acceleration / spring);
    let (first, last) = (centre - from, centre - to);
    let radius = first.hypot(speed / w);
    ((last / radius).clamp(-1.0, 1.0).acos() - (speed / w).atan2(first)) / w
}
