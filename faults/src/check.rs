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
    //! neighbour; so is a fence that goes back, and one that two have; an old fence that is accepted is counted, one that is refused is not.
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
    fn an_old_fence_that_is_accepted_is_counted() {
        let asked = |fence, accepted| ResourceWrite { fence, accepted };
        assert_eq!(old_accepted(&[asked(3, true), asked(3, true), asked(5, true), asked(3, false)]), 0);
        assert_eq!(old_accepted(&[asked(3, true), asked(5, true), asked(4, true), asked(5, true)]), 1);
    }
}
