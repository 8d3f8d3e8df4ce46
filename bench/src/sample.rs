//! Repeating a measurement, and what is said of the samples.

use std::time::Duration;

use crate::failure::Failure;

/// Samples of one figure, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    /// Of at least one sample.
    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        assert!(!samples.is_empty(), "a figure has samples");
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }
    /// The value below which `share` of the samples lie.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let index = (share * (self.0.len() - 1) as f64).round() as usize;
        self.0[index]
    }
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }
    pub(crate) fn lowest(&self) -> f64 {
        self.0[0]
    }
    pub(crate) fn highest(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
    pub(crate) fn samples(&self) -> &[f64] {
        &self.0
    }
}

/// What was measured, and the result.
pub(crate) type Named = (String, Spread);

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Samples of each figure.
    pub(crate) samples: usize,
    /// How long one should take.
    pub(crate) target: Duration,
}

impl Effort {
    /// The rate of `body`, which is given a count of rounds, at most `most`, and says what it did and in how many seconds. The count
    /// is raised until a sample is long enough; those samples are thrown away.
    pub(crate) fn rate(
        self,
        most: u32,
        mut body: impl FnMut(u32) -> Result<(f64, f64), Failure>,
    ) -> Result<Spread, Failure> {
        let target = self.target.as_secs_f64();
        let most = most.max(1);
        let mut rounds = 1;
        // Ends: the count at least doubles.
        loop {
            let (_, seconds) = body(rounds)?;
            if seconds > target / 2.0 || rounds >= most {
                break;
            }
            let factor = (target / seconds.max(1e-9)).clamp(2.0, 16.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            let more = (f64::from(rounds) * factor).min(f64::from(most)) as u32;
            rounds = more;
        }
        let samples: Result<Vec<_>, Failure> = (0..self.samples)
            .map(|_| {
                let (work, seconds) = body(rounds)?;
                Ok(work / seconds.max(1e-9))
            })
            .collect();
        Ok(Spread::of(samples?))
    }
}
