//! Which interval of a recipe to collect. Decided by the clock and the recipe alone: how many
//! reports there are is nobody's business below the minimum batch.

use std::fmt;

use anyhow::{Result, anyhow};
use sotto_protocol::Moment;
use sotto_protocol::recipe::windows::{
    Span, can_reach_minimum, expected_reports, last_release, next_release, releases,
};
use sotto_wire::Recipe;

use crate::output::WithHint;
use crate::time_text::{show_moment, show_seconds};

/// An interval that is not due: the reports that are still to come would be refused.
#[derive(Debug, PartialEq)]
pub(super) struct StillOpen {
    span: Span,
    now: Moment,
}

impl fmt::Display for StillOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, now } = self;
        if now.0 < span.start {
            return write!(f, "the interval {} has not begun yet", show(*span));
        }
        if now.0 >= span.end {
            return write!(f, "the last reports of the interval {} are on their way", show(*span));
        }
        let share = (now.0 - span.start) as f64 / (span.end - span.start) as f64;
        write!(
            f,
            "the interval {} is still open: {:.0} % of it is over. It can be collected only once",
            show(*span),
            (share * 100.0).floor()
        )
    }
}

impl StillOpen {
    pub(super) fn hint(&self) -> String {
        let due = show_moment(Moment(self.span.due()));
        format!(
            "ask again after {due}, without --interval or --current; --anyway asks all the same, and \
             may lose later reports"
        )
    }
}

/// The interval that was asked for, or the last one that has ended and can reach the minimum batch.
/// Refuses one that cannot, unless it is wanted anyway.
pub(super) fn choose(
    recipe: &Recipe,
    asked: Option<Span>,
    now: Moment,
    anyway: bool,
) -> Result<Result<Span, StillOpen>> {
    let last = last_release(recipe, now.0);
    let open = next_release(recipe, now.0);
    let span = match asked {
        Some(span) => span,
        None if anyway => {
            let begun = releases(&recipe.answer_times()).rev().find(|span| span.start <= now.0);
            begun.or(open).ok_or_else(|| never(recipe))?
        }
        None => match (last, open) {
            (Some(last), _) => last,
            (None, Some(span)) => return Ok(Err(StillOpen { span, now })),
            (None, None) => return Err(never(recipe)),
        },
    };
    let longest = recipe.when.max_window_s;
    if span.end - span.start > longest {
        return Err(anyhow!("the recipe releases at most {} at once", show_seconds(longest)))
            .hint("leave --interval out, or give a shorter one");
    }
    if !anyway && !can_reach_minimum(recipe, span) {
        let whole = last.or(open).map_or(String::new(), |whole| {
            format!("leave --interval and --current out to collect {}, or ", show(whole))
        });
        return Err(anyhow!(
            "the interval {} is too short: about {:.0} reports are expected in it, by the recipe's \
             population and sampling rate, and nothing is released below {}",
            show(span),
            expected_reports(recipe, span),
            recipe.aggregation.min_batch
        ))
        .hint(format!("{whole}give a longer one, of up to {}", show_seconds(longest)));
    }
    if !anyway && span.due() > now.0 {
        return Ok(Err(StillOpen { span, now }));
    }
    Ok(Ok(span))
}

fn never(recipe: &Recipe) -> anyhow::Error {
    anyhow!(
        "no interval of {} is expected to hold {} reports, by the recipe's population and sampling \
         rate; --anyway asks for one",
        show_seconds(recipe.when.max_window_s),
        recipe.aggregation.min_batch
    )
}

pub(super) fn show(span: Span) -> String {
    format!("{} to {}", show_moment(Moment(span.start)), show_moment(Moment(span.end)))
}

#[cfg(test)]
mod tests {
    use sotto_protocol::recipe::windows::GRACE_S;
    use sotto_wire::recipe::Probability;

    use super::*;
    use crate::output::hint_of;
    use crate::recipe::testing;

    const DAY: u64 = 86_400;

    /// Three weeks, each a release of its own, by the day. 2,000 of 3,000 expected answers of a
    /// week are needed.
    fn weekly() -> Recipe {
        let mut recipe = testing::recipe();
        recipe.when.opens = 7_000 * DAY;
        recipe.when.closes = 7_021 * DAY;
        recipe.when.window_s = DAY;
        recipe.when.max_window_s = 7 * DAY;
        recipe.who.population = 18_000;
        recipe.sampling.rate = Probability::new(1, 2).unwrap();
        recipe.aggregation.min_batch = 2_000;
        recipe
    }

    fn days(from: u64, to: u64) -> Span {
        Span { start: (7_000 + from) * DAY, end: (7_000 + to) * DAY }
    }

    /// Half a day after the beginning of a day: what ended then is due.
    fn noon(day: u64) -> Moment {
        Moment((7_000 + day) * DAY + GRACE_S)
    }

    fn at(day: u64, asked: Option<Span>, anyway: bool) -> Result<Result<Span, StillOpen>> {
        choose(&weekly(), asked, noon(day), anyway)
    }

    #[test]
    fn the_last_whole_release_is_collected() {
        for (day, from) in [(7, 0), (9, 0), (14, 7), (20, 7), (21, 14), (400, 14)] {
            assert_eq!(at(day, None, false).unwrap().unwrap(), days(from, from + 7), "{day}");
        }
        let open = at(2, None, false).unwrap().unwrap_err();
        insta::assert_snapshot!(open, @"the interval 1989-03-02T00:00:00Z to 1989-03-09T00:00:00Z is still open: 35 % of it is over. It can be collected only once");
        assert!(open.hint().starts_with("ask again after 1989-03-09T12:00:00Z"));
        // It has ended, but reports are late.
        let ended = Moment(noon(7).0 - 1);
        let late = choose(&weekly(), None, ended, false).unwrap().unwrap_err();
        assert!(late.to_string().ends_with("are on their way"), "{late}");
        assert_eq!(at(2, None, true).unwrap().unwrap(), days(0, 7), "anyway");
        assert_eq!(at(9, None, true).unwrap().unwrap(), days(7, 14), "anyway: the open one");
    }

    #[test]
    fn a_look_too_early_is_refused_with_the_reason() {
        // One day of a week that is still open, and one that has ended.
        for day in [3, 9] {
            let error = at(day, Some(days(3, 4)), false).unwrap_err();
            let said = error.to_string();
            assert!(said.contains("about 447 reports") && said.contains("below 2000"), "{said}");
            let hint = hint_of(&error).unwrap();
            assert!(hint.contains("out to collect 1989-03-02T00:00:00Z to"), "{hint}");
            assert_eq!(at(day, Some(days(3, 4)), true).unwrap().unwrap(), days(3, 4));
        }
        // Long enough, but not over.
        assert!(at(9, Some(days(5, 12)), false).unwrap().is_err());
        assert_eq!(at(12, Some(days(5, 12)), false).unwrap().unwrap(), days(5, 12));
        // Longer than the recipe allows, whatever is wanted.
        assert!(at(20, Some(days(0, 8)), true).is_err());
    }

    /// A round is collected when its own time is over, not when that of its header is.
    #[test]
    fn a_round_with_a_length_is_collected_when_it_is_over() {
        let mut header = testing::weekly();
        let opens = 7_000 * DAY;
        (header.when.opens, header.when.closes) = (opens, opens + 26 * 7 * DAY);
        let round = header.with_round(sotto_wire::recipe::Round { index: 2, model: None }).unwrap();
        let open = choose(&round, None, noon(20), false).unwrap().unwrap_err();
        assert_eq!(open.span, days(14, 21));
        assert_eq!(choose(&round, None, noon(21), false).unwrap().unwrap(), days(14, 21));
        assert_eq!(choose(&round, None, noon(400), false).unwrap().unwrap(), days(14, 21));
    }

    #[test]
    fn a_short_rest_is_left_out() {
        let mut recipe = weekly();
        recipe.when.closes = 7_016 * DAY;
        let chosen = choose(&recipe, None, Moment(8_000 * DAY), false).unwrap().unwrap();
        assert_eq!(chosen, days(7, 14));
        recipe.aggregation.min_batch = 20_000;
        assert!(choose(&recipe, None, Moment(8_000 * DAY), false).is_err());
    }
}
