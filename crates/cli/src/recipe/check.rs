//! `sotto recipe check`.

use anyhow::Result;
use clap::Args;

use sotto_dp::crowd::Crowd;
use sotto_dp::number::{up, up_short};

use super::examine::{Contribution, Examination, Guarantee, NoiseSide, Status, examine};
use super::words::{self, grouped};
use crate::output::{Outcome, Output};
use crate::recipe_file::RecipeArgs;
use crate::time_text::now;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 a device would accept it, as far as can be checked without the \
    log; 1 a device would refuse it; 2 error."
)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
}

impl CheckArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let (loaded, trust) = self.recipe.load()?;
        let found = examine(&loaded, trust.as_ref(), now()?.0)?;
        if output.json() {
            output.value(&found)?;
        } else {
            print(&found, output)?;
        }
        Ok(if found.ok { Outcome::Yes } else { Outcome::No })
    }
}

/// Prints an examination for people.
pub(super) fn print(found: &Examination, output: &Output) -> Result<()> {
    let row = |name: &str, value: &str| output.entry(format!("  {name:<17} "), value);
    output.title(&format!("recipe {}", found.name))?;
    row("id", found.id.as_deref().unwrap_or("known once it has an author and its token keys"))?;
    output.title("checks")?;
    for line in &found.checks {
        let status = match line.status {
            Status::Ok => "ok",
            Status::Failed => "FAILED",
            Status::Unknown => "-",
        };
        output.entry(format!("  {:<17} {status:<7} ", line.check), &line.reason)?;
        if let Some(place) = &line.place {
            output.place(&" ".repeat(28), place)?;
        }
    }
    if let Some(privacy) = &found.privacy {
        output.title("privacy")?;
        let noisy = found.contribution.as_ref().is_some_and(|one| one.is_noisy);
        print_privacy(privacy, noisy, &row)?;
    }
    if let Some(contribution) = &found.contribution {
        output.title("one contribution")?;
        print_contribution(contribution, &row)?;
    }
    if let Some(series) = &found.series {
        output.title("rounds")?;
        series.print(&row)?;
    }
    output.title("crowd")?;
    print_crowd(found, &row)?;
    if !found.expected_errors.is_empty() {
        output.title("expected error (standard error, sampling included)")?;
    }
    for expected in &found.expected_errors {
        row(expected.label(), &expected.words())?;
    }
    output.title("leader and helper each release a batch")?;
    for rule in &found.release_rules {
        output.entry("  - ", rule)?;
    }
    for warning in &found.warnings {
        output.entry("warning: ", warning)?;
    }
    let verdict = match found.ok {
        false if found.only_parties_missing => {
            "A device would refuse this recipe, but only because [parties] is missing."
        }
        true if found.refused_by_default => {
            "A device with the default floors would refuse this recipe. Give --trust, the file that \
             devices use."
        }
        true => "As far as can be checked without the log, a device would accept this recipe.",
        false => "A device would refuse this recipe.",
    };
    output.prose(format!("\n{verdict}"))
}

type Row<'a> = dyn Fn(&str, &str) -> Result<()> + 'a;

fn print_privacy(privacy: &Guarantee, noisy: bool, row: &Row<'_>) -> Result<()> {
    let delta = words::delta(privacy.delta);
    row("claimed", &format!("epsilon {} at delta {delta}", up(privacy.claimed_epsilon)))?;
    let computed = up(privacy.computed_epsilon);
    let dishonest = grouped(privacy.dishonest_devices);
    row(
        "device computes",
        &format!("epsilon {computed} (count seen, up to {dishonest} dishonest devices in all)"),
    )?;
    if !privacy.cover.is_one() {
        let cover = privacy.cover;
        row("cover", &format!("{cover}, so a relay that sees the result counts: 1 costs less"))?;
    }
    if privacy.sending_epsilon > 0.0 {
        let sending = up(privacy.sending_epsilon);
        let words = format!("epsilon {sending}, which a relay learns from who sends something");
        row("who sends", &words)?;
    }
    let paper = up(privacy.paper_epsilon);
    row("paper's figure", &format!("epsilon {paper} (all honest, count hidden)"))?;
    if let Some(found) = &privacy.colluding {
        let epsilon = up(found.epsilon);
        let (devices, reports) = (grouped(found.honest_devices), grouped(found.honest_reports));
        let asked = privacy.asked;
        let words = format!(
            "epsilon {epsilon}, if leader and helper combine their shares; assumes {devices} honest \
             devices (half of the {asked}), so at least {reports} honest reports, and a \
             relay that hides senders (`sotto recipe coalitions` says what holds without both)"
        );
        row("both collude", &words)?;
    }
    match privacy.local_epsilon {
        Some(local) => row(
            "randomizer alone",
            &format!("epsilon {}, even if everybody else is malicious", up(local)),
        ),
        None if noisy => row("randomizer alone", "none: the noise of one device hides little"),
        None => row("randomizer alone", "none: the exact value is sent"),
    }
}

fn print_contribution(contribution: &Contribution, row: &Row<'_>) -> Result<()> {
    let vdaf = contribution.vdaf["type"].as_str().unwrap_or_default();
    let bytes = grouped(contribution.report_bytes as u64);
    row(
        "report",
        &format!("{vdaf}, about {bytes} bytes, in two shares; each alone reveals nothing"),
    )?;
    for (index, example) in contribution.examples.iter().enumerate() {
        let name = if index == 0 { "for example" } else { "" };
        row(name, &format!("{} -> {}", example.attributes, example.measurement))?;
    }
    row("then", &contribution.effect)?;
    let sides = contribution.sides.as_ref();
    if let Some(error) = contribution.projection_error {
        let mut words = format!(
            "fewer numbers are sent: each number of the sum comes back with an error of {} times the norm \
             of the sum (root mean square, whatever the number of devices), besides its noise",
            up_short(error)
        );
        if let Some(sides) = sides.filter(|_| error > 0.0) {
            let equal = up_short(sides.noise_of_devices.noise_error / error);
            words += &format!("; above a norm of {equal} it is larger than the noise");
        }
        row("projection", &words)?;
    }
    let Some(sides) = sides else { return Ok(()) };
    print_side("noise of devices", &sides.noise_of_devices, row)?;
    print_side("or of servers", &sides.noise_of_aggregators, row)
}

/// One of two ways of adding noise, with the same guarantee.
fn print_side(name: &str, side: &NoiseSide, row: &Row<'_>) -> Result<()> {
    let mean = match side.noise_error_of_mean {
        Some(error) => format!(", so {} of the mean", up_short(error)),
        None => String::new(),
    };
    let words = format!(
        "{} on each number of the sum{mean} (standard deviation); one cheating device adds up to {} \
         (rho {}); reports of about {} bytes",
        up_short(side.noise_error),
        up_short(side.device_adds),
        up_short(side.rho),
        grouped(side.report_bytes as u64)
    );
    row(name, &words)
}

fn print_crowd(found: &Examination, row: &Row<'_>) -> Result<()> {
    let Examination { crowd, of_which_round, .. } = found;
    row("expected answers", &format!("{}{of_which_round}", grouped(crowd.expected as u64)))?;
    if crowd.expected_per_release < crowd.expected {
        let share = grouped(crowd.expected_per_release as u64);
        row("in one release", &format!("{share}, if they come evenly over time"))?;
    }
    row("release", &release(crowd))?;
    row("safe min batch", &format!("{} or less", grouped(crowd.safe_min_batch)))
}

/// The probability of a release, which is an approximation.
fn release(crowd: &Crowd) -> String {
    match crowd.release_probability {
        _ if crowd.is_almost_sure() => "almost sure".to_owned(),
        value if value < 0.0001 => "almost impossible".to_owned(),
        value => format!("with probability {value:.2}"),
    }
}
