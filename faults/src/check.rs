//! What is checked of a cell: the tenures that its processes believed in, and what the resource accepted.

/// One tenure as its holder saw it: it believed from `begin` to `end` at least, by the clock that all processes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContenderTenure {
    pub(crate) who: String,
    pub(crate) fence: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// It is one that its holder keeps until it is told otherwise.
    pub(crate) long: bool,
}

/// Two tenures that can't both be right: they overlap, have one fence, or the later one has the lower fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overlap {
    pub(crate) lower: ContenderTenure,
    pub(crate) higher: ContenderTenure,
}

/// Promise S1, and that fences grow with time (S2): sorted by fence, each tenure begins after all with lower fences have ended.
pub(crate) fn overlaps(tenures: &[ContenderTenure]) -> Vec<Overlap> {
    let mut sorted: Vec<&ContenderTenure> = tenures.iter().collect();
    sorted.sort_by_key(|tenure| (tenure.fence, tenure.begin));
    let mut last: Option<&ContenderTenure> = None;
    let mut found = Vec::new();
    for tenure in sorted {
        if let Some(lower) = last.filter(|last| tenure.begin < last.end || tenure.fence == last.fence) {
            found.push(Overlap { lower: lower.clone(), higher: tenure.clone() });
        }
        if last.is_none_or(|last| tenure.end > last.end) {
            last = Some(tenure);
        }
    }
    found
}

/// Promise S2, also where the store forgets and two hold at once: who begins when a fault is over for so long has a higher fence than all that had ended
/// before it was over. Those in between may have claimed during the fault. Each is counted once, beside the highest of those.
pub(crate) fn gone_back(tenures: &[ContenderTenure], healed: &[u64], settled: u64) -> Vec<Overlap> {
    let highest = |at: u64| tenures.iter().filter(|old| old.end <= at).max_by_key(|old| old.fence);
    let before: Vec<(u64, &ContenderTenure)> =
        healed.iter().filter_map(|at| Some((at.saturating_add(settled), highest(*at)?))).collect();
    let mut found = Vec::new();
    for tenure in tenures {
        let earlier = before.iter().filter(|(from, _)| tenure.begin > *from).map(|(_, higher)| *higher);
        if let Some(higher) = earlier.max_by_key(|old| old.fence).filter(|old| old.fence >= tenure.fence) {
            found.push(Overlap { lower: tenure.clone(), higher: higher.clone() });
        }
    }
    found
}

/// A write that the resource was asked for, in the order in which it decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceWrite {
    pub(crate) fence: u64,
    pub(crate) accepted: bool,
}

/// Promise S2 at the resource: writes that were accepted after one with a higher fence.
pub(crate) fn old_accepted(asked: &[ResourceWrite]) -> usize {
    let mut highest = 0;
    let mut old = 0;
    for write in asked.iter().filter(|write| write.accepted) {
        old += usize::from(write.fence < highest);
        highest = highest.max(write.fence);
    }
    old
}

#[cfg(test)]
mod tests {
    //! Plan: tenures one after the other are fine in any order of telling; an overlap is seen, also with one that is not its
    //! neighbour; so is a fence that goes back, and one that two have; after a fault one that is not above all before is seen, whoever held at
    //! once during it; an old fence that is accepted is counted, one that is refused is not.
    use super::*;

    fn tenure(fence: u64, begin: u64, end: u64) -> ContenderTenure {
        ContenderTenure { who: format!("p{fence}"), fence, begin, end, long: false }
    }

    #[test]
    fn tenures_one_after_the_other_are_fine() {
        assert_eq!(overlaps(&[]), []);
        assert_eq!(overlaps(&[tenure(7, 20, 30), tenure(3, 0, 10), tenure(5, 10, 20)]), []);
    }

    #[test]
    fn an_overlap_is_seen_whoever_is_between() {
        let all = [tenure(1, 0, 100), tenure(2, 100, 101), tenure(3, 99, 120)];
        let found = overlaps(&all);
        assert_eq!(found, [Overlap { lower: all[1].clone(), higher: all[2].clone() }]);
        let long = [tenure(1, 0, 100), tenure(2, 10, 20), tenure(3, 30, 40)];
        assert_eq!(overlaps(&long).len(), 2, "both are within the first");
    }

    #[test]
    fn a_fence_that_goes_back_is_seen_and_one_that_two_have() {
        assert_eq!(overlaps(&[tenure(9, 0, 10), tenure(4, 20, 30)]).len(), 1);
        assert_eq!(overlaps(&[tenure(4, 0, 10), tenure(4, 20, 30)]).len(), 1);
    }

    #[test]
    fn a_fence_that_goes_back_after_a_fault_is_seen_though_two_held_during_it() {
        let during = [tenure(5, 0, 40), tenure(8, 10, 60), tenure(9, 20, 30)];
        let after = |fence, begin| {
            let all: Vec<_> = during.iter().cloned().chain([tenure(fence, begin, begin + 5)]).collect();
            gone_back(&all, &[50], 20)
        };
        assert_eq!(after(10, 71), []);
        assert_eq!(after(9, 70), [], "it may have claimed before the fault was over");
        for fence in [7, 9] {
            let back = Overlap { lower: tenure(fence, 71, 76), higher: during[2].clone() };
            assert_eq!(after(fence, 71), [back], "two have one, or it is lower");
        }
        // What a later fault saw goes on counting, and nothing is told twice.
        let all = [tenure(9, 20, 30), tenure(12, 80, 90), tenure(11, 200, 210)];
        let back = Overlap { lower: all[2].clone(), higher: all[1].clone() };
        assert_eq!(gone_back(&all, &[50, 100], 20), [back]);
        assert_eq!(gone_back(&all, &[], 20), []);
    }

    #[test]
    fn an_old_fence_that_is_accepted_is_counted() {
        let asked = |fence, accepted| ResourceWrite { fence, accepted };
        assert_eq!(old_accepted(&[asked(3, true), asked(3, true), asked(5, true), asked(3, false)]), 0);
        assert_eq!(old_accepted(&[asked(3, true), asked(5, true), asked(4, true), asked(5, true)]), 1);
    }
}
