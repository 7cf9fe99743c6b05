//! Extraction as an integer program: one binary variable per class and per node; cycles are cut as
//! they appear.

use super::{Choice, Problem};
use good_lp::{
    Constraint, Expression, Solution, SolverModel, Variable, microlp, variable, variables,
};
use std::collections::BTreeMap;

/// Rounds of cutting cycles before giving up.
const ROUNDS: usize = 30;

/// The cheapest acyclic choice; `None` if the solver fails or too many cycles must be cut. `scale`
/// is the cost of a known choice, which keeps the coefficients near 1.
pub(super) fn solve(problem: &Problem, scale: f64) -> Option<Choice> {
    let mut cuts: Vec<Vec<(usize, usize)>> = Vec::new();
    for _ in 0..ROUNDS {
        let choice = round(problem, scale, &cuts)?;
        match cycle(problem, &choice) {
            Some(cut) => cuts.push(cut),
            None => return Some(choice),
        }
    }
    None
}

/// One solution under the current cuts.
fn round(problem: &Problem, scale: f64, cuts: &[Vec<(usize, usize)>]) -> Option<Choice> {
    let classes = problem.reachable();
    let mut vars = variables!();
    let mut node: BTreeMap<(usize, usize), Variable> = BTreeMap::new();
    let mut objective = Expression::from(0.0);
    for class in &classes {
        for (i, c) in problem.usable(*class) {
            let x = vars.add(variable().binary());
            objective += x * (c.seconds / scale);
            node.insert((*class, i), x);
        }
    }
    let chosen = |class: usize| -> Expression {
        problem
            .usable(class)
            .map(|(i, _)| Expression::from(node[&(class, i)]))
            .sum()
    };
    let mut constraints: Vec<Constraint> = vec![chosen(0).eq(1.0)];
    for class in &classes {
        for (i, c) in problem.usable(*class) {
            let mut kids = c.kids.clone();
            kids.sort_unstable();
            kids.dedup();
            for kid in kids {
                constraints.push(Expression::from(node[&(*class, i)]).leq(chosen(kid)));
            }
        }
    }
    for cut in cuts {
        let members: Expression = cut.iter().map(|key| Expression::from(node[key])).sum();
        constraints.push(members.leq(cut.len() as f64 - 1.0));
    }
    let mut model = vars.minimise(objective).using(microlp);
    for constraint in constraints {
        model.add_constraint(constraint);
    }
    let solution = model.solve().ok()?;
    let pick = |class: usize| {
        let value = |i: usize| solution.value(node[&(class, i)]);
        problem
            .usable(class)
            .map(|(i, _)| i)
            .find(|i| value(*i) > 0.5)
    };
    let chosen: BTreeMap<usize, usize> = classes
        .iter()
        .filter_map(|class| Some((*class, pick(*class)?)))
        .collect();
    // Every class a chosen node reads must have a chosen node.
    let complete = chosen.iter().all(|(class, i)| {
        problem.classes[*class][*i]
            .kids
            .iter()
            .all(|kid| chosen.contains_key(kid))
    });
    complete.then(|| problem.needed(|class| chosen[&class]))
}

/// A cycle among the chosen nodes.
fn cycle(problem: &Problem, choice: &Choice) -> Option<Vec<(usize, usize)>> {
    if problem.order(choice).is_some() {
        return None;
    }
    // Remove classes whose operands are all outside the set; the rest contains a cycle.
    let mut left: Vec<usize> = choice.keys().copied().collect();
    loop {
        let before = left.len();
        let kids = |class: &usize| &problem.classes[*class][choice[class]].kids;
        let stays: Vec<usize> = left
            .iter()
            .copied()
            .filter(|class| kids(class).iter().any(|kid| left.contains(kid)))
            .collect();
        left = stays;
        if left.len() == before {
            break;
        }
    }
    let mut path = vec![*left.first()?];
    loop {
        let last = *path.last()?;
        let next = problem.classes[last][choice[&last]]
            .kids
            .iter()
            .copied()
            .find(|kid| left.contains(kid))?;
        if let Some(start) = path.iter().position(|class| *class == next) {
            return Some(
                path[start..]
                    .iter()
                    .map(|class| (*class, choice[class]))
                    .collect(),
            );
        }
        path.push(next);
    }
}
