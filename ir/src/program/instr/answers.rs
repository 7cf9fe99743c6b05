//! Answers that several instructions share.

// Says that neither `work` nor a calibration prices an instruction: a loop, or one that communicates.
macro_rules! unpriced {
    () => {
        fn work(&self, _: &Counts, _: &RankSizes) -> Option<Work> {
            None
        }

        fn demand(&self, _: &mut Terms, _: &Program, _: &RankSizes) -> Option<&'static str> {
            None
        }
    };
}

// What all loops answer alike: they have no operands of their own, and change and lay out what their bodies do.
macro_rules! a_loop {
    ($name:literal) => {
        fn name(&self, _: &Program) -> &'static str {
            $name
        }

        fn operands<'a>(&'a self, _: &mut impl FnMut(Operand<'a>)) {}

        fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
            self.body.iter_mut().for_each(|instr| instr.each_ref(visit));
        }

        fn check(&self, _: &Check) -> Checked {
            Ok(())
        }

        fn fits_chunks(&self, _: &Program) -> bool {
            false
        }

        unpriced!();

        fn body(&self) -> Option<&[Instr]> {
            Some(&self.body)
        }

        fn body_mut(&mut self) -> Option<&mut Vec<Instr>> {
            Some(&mut self.body)
        }

        fn scratch_floats(&self, program: &Program, capacity: &Capacity) -> u64 {
            scratch_floats(&self.body, program, capacity)
        }
    };
}
