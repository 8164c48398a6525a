//! Optimizers against their formulas, and their state as JSON.

use sotto_learn::optimizer::{Optimizer, Server};

const ADAM: Optimizer =
    Optimizer::Adam { rate: 0.1, first_decay: 0.9, second_decay: 0.99, epsilon: 1e-3 };
const ALL: [Optimizer; 3] =
    [Optimizer::Sgd { rate: 0.5 }, Optimizer::Momentum { rate: 0.5, decay: 0.75 }, ADAM];

/// The mean of a round.
fn mean(round: u32) -> [f64; 2] {
    [1.0 / f64::from(round + 3), f64::from(round % 5) - 1.7]
}

fn close(found: f64, expected: f64) {
    // Weights are rounded to 24 bits in each step.
    assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} {expected}");
}

#[test]
fn steps_are_those_of_the_formulas() {
    let run = |optimizer| {
        let mut server = Server::new(optimizer, vec![1.0, -2.0]).unwrap();
        (0..20).for_each(|round| server.step(&mean(round)).unwrap());
        assert_eq!(server.steps(), 20);
        server.weights().to_vec()
    };
    // All by sums over the past instead of a recursion.
    let [sgd, momentum, adam] = ALL.map(run);
    for (place, start) in [1.0, -2.0].into_iter().enumerate() {
        let sum: f64 = (0..20).map(|round| mean(round)[place]).sum();
        close(sgd[place], start + 0.5 * sum);
        let velocity = |until: u32| -> f64 {
            (0..=until)
                .map(|round| 0.75_f64.powi((until - round) as i32) * mean(round)[place])
                .sum()
        };
        close(momentum[place], start + 0.5 * (0..20).map(velocity).sum::<f64>());
        let moment = |until: u32, decay: f64, power: i32| -> f64 {
            let weight = |round: u32| decay.powi((until - round) as i32);
            let sum: f64 =
                (0..=until).map(|round| weight(round) * mean(round)[place].powi(power)).sum();
            sum / (0..=until).map(weight).sum::<f64>()
        };
        let step = |round| moment(round, 0.9, 1) / (moment(round, 0.99, 2).sqrt() + 1e-3);
        close(adam[place], start + 0.1 * (0..20).map(step).sum::<f64>());
    }
}

#[test]
fn a_stored_state_goes_on_to_the_same_bits() {
    for optimizer in ALL {
        let mut straight = Server::new(optimizer, vec![0.1, 0.2]).unwrap();
        let mut stored = straight.clone();
        for round in 0..10 {
            straight.step(&mean(round)).unwrap();
            let text = serde_json::to_string(&stored).unwrap();
            stored = serde_json::from_str::<Server>(&text).unwrap();
            stored = stored.checked(optimizer, 2).unwrap();
            stored.step(&mean(round)).unwrap();
        }
        assert_eq!(stored, straight);
    }
}

#[test]
fn a_broken_state_is_refused() {
    let server = Server::new(ADAM, vec![0.5, 0.25]).unwrap();
    assert!(server.clone().checked(ADAM, 3).is_err());
    assert!(server.clone().checked(Optimizer::Sgd { rate: 0.5 }, 2).is_err());
    let text = serde_json::to_string(&server).unwrap();
    let half = "3fe0000000000000";
    assert!(text.contains(half), "{text}");
    // Not a number, one digit less, a sign, a moment less.
    for (from, to) in [
        (half, "7ff8000000000000"),
        (half, "3fe000000000000"),
        (half, "+fe0000000000000"),
        ("\"second\":\"0000000000000000", "\"second\":\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        let refused = serde_json::from_str::<Server>(&changed)
            .map_or(true, |server| server.checked(ADAM, 2).is_err());
        assert!(refused, "{changed}");
    }
    let mut server = server;
    assert!(server.step(&[1.0]).is_err());
}

#[test]
fn nonsense_is_refused() {
    for bad in [
        Optimizer::Sgd { rate: 0.0 },
        Optimizer::Momentum { rate: 1.0, decay: 1.0 },
        Optimizer::Momentum { rate: f64::INFINITY, decay: 0.5 },
        Optimizer::Adam { rate: 0.1, first_decay: -0.1, second_decay: 0.9, epsilon: 1.0 },
        Optimizer::Adam { rate: 0.1, first_decay: 0.9, second_decay: 0.9, epsilon: 0.0 },
    ] {
        assert!(Server::new(bad, vec![0.0]).is_err(), "{bad:?}");
    }
}
