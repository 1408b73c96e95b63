"""The seeded mutants (law 29): each breaks one promise, and names the cheapest tests that must notice."""

from patches import Mutant

SEAL = "synthdp.seal"
PATE = "synthdp.accounting.pate"

CONTRACT = "tests/generators/test_contract.py"
REFERENCE = "tests/accounting/test_accounting_reference.py"
PATE_ACCOUNTING = "tests/accounting/test_pate_accounting.py"
SMOOTH = "tests/accounting/test_smooth_gaussian.py"
MANIFEST = "tests/report/test_manifest.py"
WHOLE_REPLAY = (
    "tests/report/test_release_tells_no_statistic.py::"
    "test_given_the_same_answers_a_patient_more_changes_no_file_of_a_release"
)
GRADIENTS = "tests/seal/test_gradients.py"
BUCKETS = "tests/seal/test_buckets.py"
APART = "tests/seal/test_rows_apart.py::test_rows_that_may_be_mixed_are_not"
CHANGED = "tests/seal/test_rows_apart.py::test_what_changes_from_pass_to_pass_is_not_followed"
NOTHING_KEPT = "tests/seal/test_rows_apart.py::test_a_unit_finds_nothing_that_a_module_kept_of_others"
OWN_GRADIENT = "tests/seal/test_rows_apart.py::test_a_unit_s_gradient_is_its_own_whatever_the_module_does_for_many"
ROWS_APART = "synthdp.seal.gradients.rows_apart"
HISTORY_TABLES = "tests/seal/test_history_tables.py"
COUNTED, COUNTED_TESTS = "synthdp.seal.counted_histories", "tests/seal/test_counted_histories.py"
LINKED, JOINED = "tests/seal/test_linked_records.py", "synthdp.schema.joined_tables"
MOMENTS = "tests/seal/test_moments.py"
RESUME = "tests/seal/test_resume.py"
SENSITIVE = "tests/seal/test_sensitive.py"
TEACHERS = "tests/seal/test_teachers.py"
VOTES = "tests/seal/test_votes.py"
QUESTIONS_MOVE = "tests/seal/test_questions.py::test_one_unit_moves_the_bounded_value_by_at_most_the_sensitivity"
GRADIENT_NOISE = "tests/seal/test_questions.py::test_the_gradient_s_noise_is_its_charge_and_differs_each_time"
MOMENTS_MOVE = f"{MOMENTS}::test_one_unit_moves_the_answer_by_at_most_the_sensitivity"
MOMENTS_NOISE = f"{MOMENTS}::test_the_noise_of_moments_is_what_is_charged"
PUBLISHED = f"{REFERENCE}::test_published_figures_of_strong_composition_and_moments"
SPILL = "tests/seal/test_spill.py::test_a_spill"
SAMPLING_COINS = "tests/seal/test_sampling.py"
CALLBACKS = "tests/seal/test_callbacks.py"
ANSWERS = "tests/seal/test_answers.py"
ACCOUNTS = "synthdp.budgets"
CLAIMS = "tests/seal/test_account_claims.py"
DAMAGE = "tests/budgets/test_account_damage.py"
DECLARED = "tests/cli/test_declared.py"
AUDITED = "tests/audit/test_door.py::test_the_door_keeps_its_claim_and_the_audit_finds_a_part"
LAWS = "tests/accounting/test_accounting_laws.py"
SAMPLED_THRESHOLDS = f"{LAWS}::test_each_threshold_of_a_sample_takes_its_whole_delta_off_and_is_not_amplified"
ROUNDED_UP = "tests/seal/test_questions.py::test_no_lone_category_passes_the_threshold_by_being_rounded_up"
RUNS_ALONE = (
    "tests/seal/test_selection.py::test_noise_of_a_run_is_seeded_in_rehearsals_alone_and_no_warning_counts_the_runs"
)
LNMAX_ERRS = f"{VOTES}::test_lnmax_errs_as_often_as_two_laplace_noises_make_it"
TEACHERS_APART = f"{TEACHERS}::test_a_patient_more_changes_what_one_teacher_says_and_not_a_bit_of_the_others"

CLIPPING = (
    Mutant(
        "no clip of sums",
        f"{SEAL}.vectors:clipped_sum",
        "clipped(per_unit, group.clip)",
        "np.where(np.isfinite(per_unit).all(axis=1)[:, None], per_unit, 0.0)",
        (f"{QUESTIONS_MOVE}[False-3-sums]",),
    ),
    Mutant(
        "no clip of gradients",
        "synthdp.seal.gradients.bound:Bound._weights",
        "squares.clamp_min(limit * limit).rsqrt_().mul_(limit)",
        "torch.ones_like(squares)",
        (f"{GRADIENTS}::test_one_unit_more_moves_the_sum_by_at_most_the_clip[linear]",),
    ),
    Mutant(
        "no clip of moments",
        f"{SEAL}.vectors:_Grouped._chunks",
        "clipped(rows, self.clip)",
        "np.where(np.isfinite(rows).all(axis=1)[:, None], rows, 0.0)",
        (f"{MOMENTS_MOVE}[1-4-moments]",),
    ),
    Mutant(
        "no clip of margins",
        f"{SEAL}.teachers.vote_aggregation:_margins",
        "clipped(scores, clip)",
        "np.where(np.isfinite(scores), scores, 0.0)",
        (f"{VOTES}::test_one_teacher_moves_shares_by_at_most_the_sensitivity_and_comes_near_it[margins]",),
    ),
    Mutant(
        "clip after averaging",
        f"{SEAL}.vectors:clipped_sum",
        "total: Vector = np.ascontiguousarray(clipped(per_unit, group.clip).T).sum(axis=1)",
        "finite = per_unit[np.isfinite(per_unit).all(axis=1)]\n"
        "mean = finite.sum(0, keepdims=True) / max(1, records.units)\n"
        "total: Vector = clipped(mean, group.clip)[0] * records.units",
        (f"{QUESTIONS_MOVE}[False-3-sums]",),
    ),
    Mutant(
        "each record clipped, not each unit",
        f"{SEAL}.vectors:clipped_sum",
        "np.add.at(per_unit, records.owner, vectors)",
        "lengths = np.linalg.norm(vectors, axis=1, keepdims=True)\n"
        "np.add.at(per_unit, records.owner, vectors * np.minimum(1.0, group.clip / np.maximum(lengths, 1e-300)))\n"
        "return per_unit.sum(0)",
        (f"{SENSITIVE}::test_sums_clip_each_unit_not_each_record_nor_the_batch",),
    ),
    Mutant(
        "sums over a unit's records for means",
        f"{SEAL}.vectors:_Grouped._chunks",
        "1 / np.maximum(np.bincount(records.owner, minlength=records.units), 1)",
        "np.minimum(1.0, np.bincount(records.owner, minlength=records.units))",
        (f"{MOMENTS_MOVE}[3-4-moments]",),
    ),
    Mutant(
        "no margin for rounding",
        "synthdp.seal.clipping:clipped",
        "scale[long] = clip * MARGIN / norms[long]",
        "scale[long] = clip / norms[long]",
        ("tests/seal/test_norms.py::test_what_a_unit_adds_stays_a_ten_thousandth_below_the_sensitivity[0.5]",),
    ),
    Mutant(
        "what is not finite stays",
        "synthdp.seal.clipping:clipped",
        "np.where(finite[:, None], rows, 0.0)",
        "rows",
        (f"{MOMENTS_MOVE}[1-90-huge moments]",),
    ),
    Mutant(
        "gradients in float32",
        "synthdp.seal.gradients:sum_and_count",
        "own, module = module, in_float64(module)\nrecords = records.double() if records.is_floating_point() else records",
        "own = module",
        tuple(f"{GRADIENTS}::test_rounding_that_adds_up_stays_within_the_margin[{units}]" for units in (4096, 16384)),
    ),
    *(
        Mutant(f"rows are taken for apart: {what}", where, old, new, tuple(f"{APART}[{case}]" for case in cases))
        for what, where, old, new, cases in (
            ("any operation", f"{ROWS_APART}:_Rows._kept", "if not known:\n    raise Mixes(name)", "pass", ("sorted",)),
            (
                "operations along the first dimension",
                f"{ROWS_APART}:_Rows._along",
                "dim % max(1, deepest) != 0",
                "True",
                ("rolled",),
            ),
            (
                "broadcast rows",
                f"{ROWS_APART}:_Rows._aligned",
                "held is not None and each.dim() != deepest",
                "False",
                ("broadcast",),
            ),
            (
                "any number of rows",
                f"{ROWS_APART}:row_wise",
                "first is not None and _tried(module, loss, rows, len(rows), first) is not None",
                "_tried(module, loss, rows, len(rows), None) is not None",
                ("how many", "a layer for many"),
            ),
            (
                "gradients of its own",
                f"{ROWS_APART}:_tried",
                "not _own_gradients(losses)",
                "True",
                ("a gradient of its own",),
            ),
            (
                "hooks",
                f"{ROWS_APART}:_Calls.look",
                "name.startswith('register_') or name in READS",
                "False",
                ("a hook",),
            ),
        )
    ),
    Mutant(
        "units draw by their place",
        "synthdp.seal.gradients.explicit:add",
        "vmap(grad(unit_loss), in_dims=(None, 0, 0), randomness='error')",
        "vmap(grad(unit_loss), in_dims=(None, 0, 0), randomness='different')",
        (f"{OWN_GRADIENT}[Scaled-a seeded draw]",),
    ),
    Mutant(
        "a unit finds what the module kept of others",
        "synthdp.seal.gradients.explicit:add",
        "_alone(copied(module), loss, unit, slots, trained)",
        "_alone(module, loss, unit, slots, trained)",
        tuple(f"{NOTHING_KEPT}[{kept}]" for kept in ("dictionary", "buffer", "whole number")),
    ),
    Mutant(
        "private attributes may change from pass to pass",
        "synthdp.seal.gradients.module_state:layer_state",
        "name not in FIXED",
        "name[0] != '_'",
        (f"{CHANGED}[Warm-a private attribute]",),
    ),
    Mutant(
        "lists may change from pass to pass",
        "synthdp.seal.gradients.module_state:_held",
        "isinstance(value, list | tuple | deque)",
        "isinstance(value, tuple)",
        (f"{CHANGED}[Warm-a list]",),
    ),
    Mutant(
        "rows that are not padded",
        "synthdp.seal.gradients.bound:to_step",
        "-(-len(rows) // step) * step",
        "len(rows)",
        (f"{GRADIENTS}::test_rows_are_padded_to_a_multiple_that_kernels_round_alike",),
    ),
    Mutant(
        "no margin for rounding in float32",
        f"{SEAL}.gradients.buckets:Buckets.margin",
        "MARGIN + 2 * (self.size + 1) ** 2 * 2.0**-24",
        "MARGIN",
        (f"{BUCKETS}::test_a_contribution_stays_a_margin_below_the_clip",),
    ),
    Mutant(
        "buckets without padding",
        f"{SEAL}.gradients.buckets:Prepared.sums",
        "records.new_empty(self.buckets.size, *records.shape[1:])",
        "records.new_empty(len(units), *records.shape[1:])",
        (f"{BUCKETS}::test_every_bucket_is_computed_at_one_shape",),
    ),
    Mutant(
        "buckets by place, not by key",
        f"{SEAL}.gradients.buckets:Buckets.parts",
        "mixed(keys, DEAL)",
        "mixed(np.arange(len(keys), dtype=np.uint64), DEAL)",
        (f"{BUCKETS}::test_a_unit_more_changes_one_part_or_splits_it_in_two[400-2-16]",),
    ),
    Mutant(
        "noise by the type of a sum",
        f"{SEAL}.gradients.question:Gradient.noised",
        "bounded.flat.double()",
        "bounded.flat",
        (f"{BUCKETS}::test_noise_does_not_tell_in_which_type_a_sum_came[rule1]",),
    ),
    Mutant(
        "divisor is the batch that came",
        f"{SEAL}.gradients.question:Gradient.bounded",
        "return self.measured(records, counting=False)[0]",
        "found = self.measured(records, counting=False)[0]\nfound.flat.div_(max(1, records.units))\nreturn found",
        (f"{SENSITIVE}::test_a_gradient_is_the_sum_over_the_units_that_came_whatever_their_number",),
    ),
    Mutant(
        "rows of a label turned by a product of as many as there are",
        "synthdp.generators.images.diffusion:Prior.turned",
        "TURNED + TAIL - len(part)",
        "0",
        ("tests/generators/test_dpdm.py::test_a_row_is_turned_to_the_same_bits_whoever_else_has_its_label",),
    ),
)

NOISE = (
    Mutant(
        "noise divided by the batch twice",
        f"{SEAL}.gradients.question:Gradient.noised",
        "deviation = self.noise * self.sensitivity",
        "deviation = self.noise * self.sensitivity / 64",
        (GRADIENT_NOISE,),
    ),
    Mutant(
        "noise drawn once",
        "synthdp.noise.noise:Noise.added_flat",
        "return self._rounded(here, deviation).float().to(sums.device)",
        "kept = self.__dict__.setdefault('_once', {})\n"
        "if len(here) not in kept:\n"
        "    kept[len(here)] = self._rounded(torch.zeros_like(here), deviation)\n"
        "return (here + kept[len(here)]).float()",
        (GRADIENT_NOISE,),
    ),
    Mutant(
        "the same seed each step",
        "synthdp.noise.noise:Noise._rounded",
        "return gaussian.rounded(flat, deviation, self._stream)",
        "self._stream = Stream(self._master or bytes(32), b'synthdp stream')\n"
        "return gaussian.rounded(flat, deviation, self._stream)",
        (GRADIENT_NOISE,),
    ),
    Mutant(
        "deviation in place of the noise multiplier",
        f"{SEAL}.marginals:Marginals.sensitivity",
        "self.max_records * math.sqrt(len(self.cliques))",
        "float(self.max_records)",
        (f"{QUESTIONS_MOVE}[False-3-grouped]",),
    ),
    Mutant(
        "deviation of a vector for that of its products",
        f"{SEAL}.vectors:GroupMoments.sensitivity",
        "self.clip**2",
        "self.clip",
        (MOMENTS_NOISE,),
    ),
    Mutant(
        "too little noise off the diagonal",
        f"{SEAL}.vectors:GroupMoments.noised",
        "math.sqrt(2)",
        "2.0",
        (MOMENTS_NOISE,),
    ),
    Mutant(
        "one noise for all groups",
        f"{SEAL}.vectors:GroupMoments.noised",
        "noise.added((bounded * scale)[:, upper[0], upper[1]], self.noise * self.sensitivity)",
        "(bounded * scale)[:, upper[0], upper[1]] + noise.added(np.zeros(len(upper[0])), self.noise * self.sensitivity)",
        (MOMENTS_NOISE,),
    ),
)

DOOR = (
    Mutant(
        "bounds from the data",
        "synthdp.seal.door:Sensitive.resolve",
        "schema = self.schema.settled()",
        "schema = self.schema.settled()\n"
        "with reading():\n"
        "    age = self._sealed.read().column('age')\n"
        "schema = schema.with_learned('age', bounds=(min(0, int(age.min())), max(99, int(age.max()))))",
        ("tests/generators/test_contract.py::test_an_outlier_or_a_rare_category_changes_no_shape[independent]",),
    ),
    Mutant(
        "the exact number of units in a note",
        "synthdp.seal.door:Sensitive.resolve",
        "schema = self.schema.settled()",
        "from dataclasses import replace\n"
        "with reading():\n"
        "    schema = replace(self.schema.settled(), notes=(f'{self._sealed.read().units} patients',))",
        (f"{WHOLE_REPLAY}[independent-settings0]",),
    ),
    Mutant(
        "a warning that the records alone decide",
        "synthdp.seal.door:Sensitive.resolve",
        "schema = self.schema.settled()",
        "schema = self.schema.settled()\n"
        "with reading():\n"
        "    if (self._sealed.read().column('age') > 99).any():\n"
        "        warnings.warn('some values are out of bounds', stacklevel=2)",
        (f"{WHOLE_REPLAY}[independent-settings0]",),
    ),
    Mutant(
        "accountant skipped on an early return",
        "synthdp.seal.door:Sensitive.ask",
        "question = self.check(question)",
        "question = self.check(question)\n"
        "with reading():\n"
        "    if not self._sealed.read().units:\n"
        "        return self._answer(question)",
        (f"{CONTRACT}::test_the_ledger_is_the_plan_whatever_the_records_are[independent]",),
    ),
    Mutant(
        "answered before it is charged",
        "synthdp.seal.door:Sensitive._asked",
        "for event, count in events:\n"
        "    self.account.book(event, count)\n"
        "return self._answer(question, sample, blocked=blocked)",
        "answer = self._answer(question, sample)\n"
        "for event, count in events:\n"
        "    self.account.book(event, count)\n"
        "return answer",
        (f"{SENSITIVE}::test_the_charge_is_on_disk_before_the_answer",),
    ),
    Mutant(
        "stop one step late",
        "synthdp.seal.charging:Account._authorise",
        "self._left[event] < count",
        "self._left[event] < count - 1",
        (f"{SENSITIVE}::test_a_question_outside_the_plan_is_refused_and_not_charged",),
    ),
    Mutant(
        "real rows kept in the artefact",
        "synthdp.generators.independent:Independent.fit",
        "schema = data.resolve()",
        "schema = data.resolve()\n"
        "rows, plain = data._sealed._Sealed__records.codes, IndependentModel.tensors\n"
        "IndependentModel.tensors = lambda own: {**plain(own), 'rows': rows}",
        (f"{CONTRACT}::test_the_release_holds_no_rows[independent]",),
    ),
)

STOPPED_FITS = (
    Mutant(
        "an answer is seen before it is kept",
        "synthdp.seal.door:Sensitive._answer",
        "kept.keep(self.account.ledger, line, question, rate, self._codec, answer)",
        "pass",
        (f"{ANSWERS}::test_a_stopped_fit_goes_on_from_its_answers_at_no_charge[2]",),
    ),
    Mutant(
        "an answer lies in the clear before the ledger says that it is given",
        "synthdp.seal.resume:Answers.keep",
        "_ciphered(save(said[1], {SAID: text}), key)",
        "np.frombuffer(save(said[1], {SAID: text}), np.uint8)",
        (f"{ANSWERS}::test_an_answer_without_its_line_can_be_read_by_nobody_and_is_given_to_nobody",),
    ),
    Mutant(
        "a line that was cut off is written again for another answer",
        "synthdp.seal.resume:Answers.load",
        "not shown <= ledger.asked().keys()",
        "False",
        (f"{ANSWERS}::test_answers_of_lines_that_were_cut_off_are_noticed[2-1]",),
    ),
    Mutant(
        "an answer is given to any question",
        "synthdp.seal.resume:Answers.again",
        "not isinstance(stored, Stored) or dict(stored.question) != asked",
        "False",
        (f"{ANSWERS}::test_an_answer_is_given_to_its_own_question_only",),
    ),
    Mutant(
        "a block's charge is good for another block",
        "synthdp.seal.charging:Account.charged",
        'self.ledger.asking("block")',
        "pass",
        (
            f"{RESUME}::test_redone_steps_are_charged_again_and_leave_fewer",
            f"{SAMPLING_COINS}::test_a_fit_resumed_in_either_loop_tosses_new_coins_for_what_it_does_again[20]",
        ),
    ),
    Mutant(
        "what is lost under a cap is not spent",
        "synthdp.seal.door:Sensitive.spend_lost",
        "filtered.spend(event)",
        "pass",
        (f"{ANSWERS}::test_an_inner_answer_that_is_lost_counts_as_spent",),
    ),
    Mutant(
        "a block gives back what was not asked",
        "synthdp.seal.charging:Account.charged",
        "del self._reserved[event]",
        'self.ledger._write({"unused": self._reserved.pop(event), "line": len(self.ledger._lines) - 1})',
        (f"{SENSITIVE}::test_a_block_stays_charged_whatever_ends_it",),
    ),
    Mutant(
        "a plan made anew costs what it realised",
        "synthdp.ledger.ledger:Ledger.entries",
        "not self.replanned or self.cap is None",
        "True",
        (f"{RESUME}::test_a_plan_made_anew_after_lost_answers_is_charged_the_whole_cap_that_the_first_line_fixed",),
    ),
    Mutant(
        "lost answers do not count towards the cap",
        "synthdp.seal.charging:Account._solved",
        "caps.least_noise(lambda z: (*lost, *self.scoped(plan(z))), cap)",
        "caps.least_noise(lambda z: self.scoped(plan(z)), cap)",
        (f"{RESUME}::test_a_plan_made_anew_after_lost_answers_is_charged_the_whole_cap_that_the_first_line_fixed",),
    ),
    Mutant(
        "ledger reset on resume",
        "synthdp.ledger.ledger:Ledger.resume",
        "ledger = cls._read(path)",
        "path.write_text('')\nledger = cls()",
        (f"{RESUME}::test_redone_steps_are_charged_again_and_leave_fewer",),
    ),
    Mutant(
        "a redone step repeats its noise",
        "synthdp.seal.door:Sensitive._turn",
        "self._noise.turn(self._place)",
        "self._noise.turn(0) if self._place == 1 else None",
        (f"{RESUME}::test_a_rehearsal_resumed_before_its_first_redone_step_equals_an_uninterrupted_one[1.0-1]",),
    ),
    Mutant(
        "two fits on one ledger",
        "synthdp.ledger.ledger:_held",
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        (f"{RESUME}::test_a_fit_that_runs_cannot_be_resumed",),
    ),
    Mutant(
        "a checkpoint resumed twice",
        "synthdp.seal.resume:Checkpoint.load",
        "each.name not in ledger.resumed",
        "True",
        (f"{RESUME}::test_a_checkpoint_is_resumed_once",),
    ),
    Mutant(
        "partition drawn again on resume",
        "synthdp.seal.door:Sensitive._seal_key",
        "bytes.fromhex(kept['seal']) if 'seal' in kept else drawn",
        "drawn",
        (f"{TEACHERS}::test_a_release_that_is_resumed_keeps_its_partition",),
    ),
)

TEACHERS_AND_VOTES = (
    Mutant(
        "noise on labels instead of votes",
        f"{SEAL}.teachers.vote_aggregation:LNMax.noised",
        "noise.added_laplace(bounded, 1 / self.gamma)",
        "noise.added_laplace(np.eye(bounded.shape[1])[winners(bounded)], 1 / self.gamma)",
        (f"{LNMAX_ERRS}[0.05-tally0]",),
    ),
    Mutant(
        "gamma for 1/gamma",
        f"{SEAL}.teachers.vote_aggregation:LNMax.noised",
        "noise.added_laplace(bounded, 1 / self.gamma)",
        "noise.added_laplace(bounded, self.gamma)",
        (f"{LNMAX_ERRS}[0.05-tally0]",),
    ),
    Mutant(
        "noise on one count only",
        f"{SEAL}.teachers.vote_aggregation:LNMax.noised",
        "noise.added_laplace(bounded, 1 / self.gamma)",
        "np.column_stack([noise.added_laplace(bounded, 1 / self.gamma)[:, :1], bounded[:, 1:]])",
        (f"{LNMAX_ERRS}[0.05-tally0]",),
    ),
    Mutant(
        "stale partition index",  # all teachers learn from the part that the last loop left its index at
        "synthdp.seal.teachers.network_teachers:Stacks._batch",
        "self._starts[teachers, None]",
        "self._starts[0]",
        (f"{TEACHERS_APART}[3-sgd, stacks of two]",),
    ),
    Mutant(
        "partition drawn again each step",
        "synthdp.seal.teachers.network_teachers:Stacks.train",
        "own, weight = self._batch(teachers, step)",
        "own, weight = self._batch(teachers, step)\nown = own.roll(step, 0)",
        (f"{TEACHERS_APART}[3-sgd, stacks of two]",),
    ),
    Mutant(
        "partition by records, not by patients",
        "synthdp.seal.teachers.protocols:dealt",
        "keys % np.uint64(count)",
        "(keys + np.arange(len(keys), dtype=np.uint64)) % np.uint64(count)",
        (f"{TEACHERS}::test_parts_are_disjoint_by_patient_and_hold_everything[2]",),
    ),
)

ACCOUNTING = (
    Mutant(
        "an older theorem lowers the claim",
        "synthdp.accounting:best",
        'name != "analytic_moments" or _without_replacement(charged)',
        "True",
        (
            "tests/accounting/test_accounting_laws.py::test_the_accountant_of_samples_without_replacement_claims_for_these_alone",
        ),
    ),
    Mutant(
        "whichever accountant is least claims",
        "synthdp.accounting:best",
        "CLAIMING",
        "ACCOUNTANTS",
        ("tests/accounting/test_accounting_laws.py::test_an_older_theorem_is_shown_and_never_lowers_the_claim",),
    ),
    Mutant(
        "missing bracket in the moments",
        "synthdp.accounting.accountants.moments:bounds.bound",
        "(whole - math.log(delta)) / orders",
        "whole - math.log(delta) / orders",
        (PUBLISHED,),
    ),
    Mutant(
        "missing log in the moments",
        "synthdp.accounting.accountants.moments:bounds.bound",
        "math.log(delta)",
        "delta",
        (PUBLISHED,),
    ),
    Mutant(
        "missing bracket in the tail bound",
        f"{PATE}.vote_counts:from_moments",
        "(whole - math.log(delta)) / orders",
        "whole - math.log(delta) / orders",
        (f"{PATE_ACCOUNTING}::test_reference",),
    ),
    Mutant(
        "missing log in the tail bound",
        f"{PATE}.vote_counts:from_moments",
        "math.log(delta)",
        "delta",
        (f"{PATE_ACCOUNTING}::test_published_figures_of_one_hundred_queries",),
    ),
    Mutant(
        "missing bracket in theorem 3",  # (1 - q)^l / (1 - e^(2 gamma) q)^l for (1 - q) ((1 - q) / (1 - e^(2 gamma) q))^l
        f"{PATE}.lnmax:log_moments",
        "(orders + 1) * stays",
        "orders * stays",
        (f"{PATE_ACCOUNTING}::test_reference",),
    ),
    Mutant(
        "missing log in theorem 3",
        f"{PATE}.lnmax:log_moments",
        "np.logaddexp(likely, log_q + loss * orders)",
        "np.exp(likely) + np.exp(log_q + loss * orders)",
        (f"{PATE_ACCOUNTING}::test_reference",),
    ),
    Mutant(
        "gamma where a vote moves two counts",
        f"{PATE}.lnmax:log_moments",
        "2 * positive('gamma', gamma)",
        "positive('gamma', gamma)",
        (f"{PATE_ACCOUNTING}::test_no_bound_is_below_the_exact_loss_against_any_neighbour",),
    ),
    Mutant(
        "a bracket of theorem 6",
        f"{PATE}.gnmax:likely_outcome",
        "(log_q + e2) * (mu2 - 1) / mu2",
        "log_q + e2 * (mu2 - 1) / mu2",
        (f"{PATE_ACCOUNTING}::test_reference",),
    ),
    Mutant(
        "one noise in q",
        f"{PATE}.gnmax:log_union",
        "math.sqrt(2)",
        "1.0",
        (f"{PATE_ACCOUNTING}::test_q_is_at_least_the_exact_probability_to_miss_the_winner",),
    ),
    Mutant(
        "half of what one teacher can change",
        "synthdp.accounting.charges:_",
        "kind(noise=event.noise, relation=event.relation, unit=event.unit)",
        "kind(noise=2 * event.noise, relation=event.relation, unit=event.unit)",
        (f"{PATE_ACCOUNTING}::test_a_ledger_s_vote_is_the_mechanism_that_is_analysed",),
    ),
    Mutant(
        "noise of a smooth sensitivity charged as if neighbours shared it",
        "synthdp.accounting.analytic_gaussian:divergence",
        "r = np.exp(-moves * beta)",
        "r, beta = 1.0 + 0 * beta, 0.0",
        (f"{SMOOTH}::test_the_divergence_is_the_largest_over_all_neighbours",),
    ),
)

SAMPLING = (
    Mutant(
        "coins counted anew in each loop",
        "synthdp.seal.door:Sensitive.steps",
        "self._loop += 1",
        "self._loop += 1\nself._tosses = 0",
        (f"{SAMPLING_COINS}::test_two_loops_of_one_event_draw_independent_samples",),
    ),
    Mutant(
        "coins of each loop again in the next, and nothing that refuses them",
        "synthdp.seal.door:Sensitive.steps",
        "self._loop += 1",
        "self._loop += 1\nself._tosses, self._noise._tossed = 0, -1",
        (f"{AUDITED}[tables, noise 1.3, rate 0.05, phases 49, alone 1, supposed coins]",),
    ),
    Mutant(
        "coins that do not depend on the place",
        "synthdp.noise.noise:Noise.coins",
        "blocks[:, 1] = step // 2",
        "blocks[:, 1] = 0",
        (f"{SAMPLING_COINS}::test_two_loops_of_one_event_draw_independent_samples",),
    ),
    Mutant(
        "a resumed fit tosses the lost coins again",
        "synthdp.seal.door:Sensitive.commit",
        "self._tosses = self.account.ledger.samples - self.account.unasked_samples",
        "self._tosses = 0",
        (f"{SAMPLING_COINS}::test_a_fit_resumed_in_either_loop_tosses_new_coins_for_what_it_does_again[20]",),
    ),
    Mutant(
        "a sample that was not charged",
        "synthdp.seal.door:Sensitive._sampled",
        "self._tosses >= self.account.ledger.samples",
        "False",
        (f"{SAMPLING_COINS}::test_no_sample_is_drawn_that_was_not_charged",),
    ),
)

HANDED_IN = (
    Mutant(
        "losses are tried at their own weights alone",
        f"{SEAL}.gradients.question:Gradient._losses_elsewhere",
        "numbers > STIRRED",
        "numbers >= 0",
        ("tests/trainer/test_private_trainer.py::test_what_is_wrong_is_refused_by_name[mixing at other weights]",),
    ),
    Mutant(
        "functions are not checked on made-up rows",
        "synthdp.seal.door:Sensitive.check",
        "callbacks.check(name, function, answer, self.codec)",
        "pass",
        (f"{CALLBACKS}::test_a_map_that_looks_at_its_batch_is_refused_by_name_before_the_charge",),
    ),
    Mutant(
        "answers in another company are not compared",
        "synthdp.seal.callbacks:check",
        "not np.allclose(np.concatenate(found), expected, rtol=CLOSE, atol=scale, equal_nan=True)",
        "False",
        (f"{CALLBACKS}::test_a_loss_that_looks_at_its_batch_is_refused_before_the_charge",),
    ),
    Mutant(
        "a number's subclass passes the door",
        "synthdp.seal.asking:plain",
        "float.__pos__(value)",
        "value",
        (f"{CALLBACKS}::test_numbers_in_a_question_are_plain_ones",),
    ),
    Mutant(
        "a question is believed by the name of its module",
        "synthdp.seal.questions:is_own",
        "name in HOUSE and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind",
        'kind.__module__.startswith("synthdp.seal.")',
        (f"{CALLBACKS}::test_what_only_says_that_it_is_a_question_of_the_house_is_refused",),
    ),
    Mutant(
        "the text of an exception on records is shown",
        "synthdp.seal.callbacks:Guarded.__call__",
        "if not is_open() or isinstance(error, self._passed):\n    raise",
        "raise",
        (f"{CALLBACKS}::test_the_text_of_an_exception_on_records_is_not_shown",),
    ),
    Mutant(
        "one odd label makes text of all others",
        "synthdp.trainer.inputs:_labels",
        "y.tolist() if isinstance(y, np.ndarray) else list(y)",
        "np.asarray(y).tolist()",
        ("tests/trainer/test_private_trainer.py::test_one_label_that_is_none_changes_no_other_record_s[list-abc]",),
    ),
)

RELEASES = (
    Mutant(
        "files are not compared with the manifest",
        "synthdp.report.manifest:check",
        "(folder / name).stat().st_size != size or digest(folder / name) != sha256",
        "False",
        (f"{MANIFEST}::test_a_changed_or_missing_file_is_refused_by_its_name[release.json]",),
    ),
    Mutant(
        "files that are not listed pass",
        "synthdp.report.manifest:check",
        "found - set(files) - {MANIFEST, SIGNATURE}",
        "set()",
        (f"{MANIFEST}::test_what_is_not_listed_is_refused_by_its_name",),
    ),
    Mutant(
        "a signature is read and not checked",
        "synthdp.report.signature:check",
        "key.verify(found[1], PREFIX + manifest)",
        "pass",
        (f"{MANIFEST}::test_a_change_that_contradicts_nothing_is_refused_by_the_signature_alone",),
    ),
    Mutant(
        "what a release claims is not worked out again",
        "synthdp.report.facts:check",
        "answer is False",
        "False",
        (f"{CONTRACT}::test_a_release_that_claims_too_little_is_refused[independent]",),
    ),
    Mutant(
        "files get their names before they are on the disk",
        "synthdp.files.atomic:folder",
        "sync(inner)",
        "pass",
        ("tests/files/test_whole.py::test_everything_is_synced_before_it_gets_its_name_and_the_name_after",),
    ),
)

DECLARED_AND_ENTERED = (
    Mutant(
        "a journal under another name is no matter",
        f"{ACCOUNTS}.file:AccountFile._check_alone",
        "chain.is_hot(place)",
        "False",
        ("tests/budgets/test_accounts.py::test_a_journal_under_another_name_stops_every_charge",),
    ),
    Mutant(
        "a schema that nobody declares is fitted",
        "synthdp.schema.schema:Schema.check_declared",
        """raise BadInput(
            f"schema: {'; '.join(problems)}. The command synthdp check shows, at no charge, what a fit with this schema would run into"
        )""",
        "pass",
        (f"{DECLARED}::test_nor_in_python",),
    ),
    Mutant(
        "a draft proposes the bounds that it saw",
        "synthdp.schema.guesses:proposed",
        'column["bounds"] = guess.get("day", LEARN)',
        'column["bounds"] = guess["bounds"]',
        ("tests/sets/test_draft.py::test_one_record_more_changes_nothing_in_a_draft",),
    ),
    Mutant(
        "what was read off the records is not said",
        "synthdp.report.statement:read_off",
        'column["declared"].get("observed")',
        "False",
        (f"{DECLARED}::test_what_was_read_off_the_records_is_said_on_the_page_and_is_not_to_be_shared",),
    ),
    Mutant(
        "a third party's generator needs no trust",
        "synthdp.generators:check_trust",
        "package not in trusted",
        "False",
        ("tests/generators/test_trust.py::test_a_third_party_s_generator_needs_trust_by_name",),
    ),
    Mutant(
        "a copy of a stopped fit goes on with a claim that was replaced",
        f"{ACCOUNTS}.file:AccountFile._check_claim",
        "fit.claims and fit.claims[-1] not in held",
        "False",
        (f"{CLAIMS}::test_of_two_copies_one_goes_on_in_turn",),
    ),
    Mutant(
        "an emptied ledger is a new start",
        f"{ACCOUNTS}.file:AccountFile._stopped",
        "fit.claims or ledger.head == GENESIS",
        "False",
        (f"{CLAIMS}::test_a_ledger_that_is_gone_is_no_new_start",),
    ),
    Mutant(
        "a trigger in an account passes",
        f"{ACCOUNTS}.chain:Book._check",
        "expected ^ found",
        "expected - found",
        (f"{DAMAGE}::test_what_synthdp_did_not_make_is_refused_by_name",),
    ),
    Mutant(
        "what is entered is not read back",
        f"{ACCOUNTS}.chain:Book.append",
        "self._connection.execute(read).fetchone() != written",
        "False",
        (f"{DAMAGE}::test_a_row_that_is_not_there_when_it_is_read_back_is_no_charge",),
    ),
)

IN_DATABASES = (
    Mutant(
        "a database sorts by the names of units",
        "synthdp.seal.database:CountedTable._unit",
        "coded.md5(ibis.literal('/').join([ibis.literal(self.key.hex()), name]))",
        "name",
        (f"{SPILL}_holds_keyed_hashes_and_no_units_name_and_goes_with_the_next_run",),
    ),
    Mutant(
        "blocks are written with what memory held before",
        "synthdp.tables.source:_clears_memory",
        "not failed and zeroes.value",
        "True",
        ("tests/seal/test_spill.py::test_where_duckdb_does_not_clear_its_memory_the_spill_is_encrypted",),
    ),
)

AUDITS = (
    Mutant(
        "an attack that finds nothing says that the claim stands",
        "synthdp.audit:word",
        "found > 0 and found >= LEAST_FOUND * claimed",
        "True",
        ("tests/audit/test_statistics.py::test_a_verdict_of_nothing_is_no_power",),
    ),
    Mutant(
        "judged by the runs that chose the thresholds",
        "synthdp.audit.claims:judged",
        "judge(cuts, without[tuning_runs:], with_[tuning_runs:], claim, delta=delta, error=error, gate_error=gate_error)",
        "judge(cuts, without[:tuning_runs], with_[:tuning_runs], claim, delta=delta, error=error, gate_error=gate_error)",
        ("tests/audit/test_door.py::test_runs_that_chose_the_thresholds_do_not_judge",),
    ),
)

HISTORIES = (
    Mutant(
        "a unit weighs as much as it has records",
        f"{SEAL}.history_records:Histories.tables",
        "weights = history_view.weights(squares, history_view.largest(clip, len(cliques)))[self.owner]",
        "weights = np.full(len(self.owner), history_view.UNIT_WEIGHT)",
        (f"{HISTORY_TABLES}::test_no_unit_moves_the_tables_by_more_than_the_sensitivity[clip 2.0]",),
    ),
    Mutant(
        "a unit's norm is that of its rows, not of the cells in which they add up",
        "synthdp.schema.history_view:squares",
        "np.add.at(found, owner[first], 2 * pairs)",
        "np.add.at(found, owner[first], 0 * pairs)",
        (f"{HISTORY_TABLES}::test_no_unit_moves_the_tables_by_more_than_the_sensitivity[clip 2.0]",),
    ),
    Mutant(
        "a unit's norm is that of one table, not of all",
        "synthdp.schema.history_view:View.apart",
        "return dict(found)",
        "return dict(list(found.items())[-1:])",
        (f"{HISTORY_TABLES}::test_no_unit_moves_the_tables_by_more_than_the_sensitivity[clip 2.0]",),
    ),
    Mutant(
        "several codes of a visit are taken for one cell each",
        "synthdp.schema.history_view:View.apart",
        "several & set(clique)",
        "False",
        (f"{LINKED}::test_no_person_moves_the_tables_by_more_than_the_sensitivity[clip 2.0]",),
    ),
    Mutant(
        "in a database a unit's norm is that of its rows",
        f"{COUNTED}:CountedHistories._squared",
        'f"{same_cell} * {kept} * {kept} + {len(cliques) - same_cell} * {kept} + 2 * coalesce(p.pairs, 0)"',
        'f"{same_cell} * {kept} * {kept} + {len(cliques) - same_cell} * {kept}"',
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "in a database numbers of records are squared in the width of their column",
        f"{COUNTED}:CountedHistories._squared",
        "'CAST(h.kept AS bigint)'",
        "'h.kept'",
        (f"{COUNTED_TESTS}::test_tables_of_people_with_thousands_of_records_are_those_in_memory[duckdb]",),
    ),
    Mutant(
        "noise of one history table for all of them",
        f"{SEAL}.history_tables:HistoryTables.sensitivity",
        "math.sqrt(len(self.cliques))",
        "1.0",
        (f"{HISTORY_TABLES}::test_no_unit_moves_the_tables_by_more_than_the_sensitivity[clip 2.0]",),
    ),
    Mutant(
        "rows of one code below visits are taken for rows of different ones",
        "synthdp.schema.history_view:row_squares",
        "np.add.at(alike, pairs // size, number**2)",
        "np.add.at(alike, pairs // size, number)",
        (f"{LINKED}::test_no_person_moves_the_tables_by_more_than_the_sensitivity[rows, clip 2.0]",),
    ),
    Mutant(
        "rows below visits weigh as much in tables without their code",
        f"{SEAL}.history_records:Histories.tables",
        "by_code if code in clique else weights",
        "by_code if code else weights",
        (f"{LINKED}::test_no_person_moves_the_tables_by_more_than_the_sensitivity[rows, clip 2.0]",),
    ),
    Mutant(
        "in a database rows below visits weigh as much in tables without their code",
        f"{COUNTED}:CountedHistories._asked",
        "'h.by_code' if code in clique else weight",
        "'h.by_code'",
        (f"{COUNTED_TESTS}::test_no_person_moves_the_tables_by_more_than_the_sensitivity",),
    ),
    Mutant(
        "each code of a visit weighs as much as the visit",
        f"{SEAL}.history_records:Histories.tables",
        "weighed // np.maximum(several, 1)",
        "weighed",
        (f"{LINKED}::test_rows_of_one_code_share_a_weight_and_their_columns_are_those_of_a_plain_loop",),
    ),
    Mutant(
        "of a person with many codes under a tree below visits each counts whole",
        f"{SEAL}.learn:Domain._shortened",
        "np.sqrt(self.categories * (1 - 1e-9) / length)",
        "np.sqrt(length / length)",
        (f"{LINKED}::test_no_person_moves_the_counts_of_a_tree_below_visits_by_more_than_the_sensitivity",),
    ),
    Mutant(
        "others decide which of a unit's records count",
        f"{SEAL}.history_records:Histories.of",
        "int(name[:8], 16)",
        "len(names)",
        (f"{HISTORY_TABLES}::test_a_unit_s_cells_are_told_by_its_own_records_alone",),
    ),
    Mutant(
        "a schema that has no histories is told so once its records are encoded",
        f"{SEAL}.history_records:Ordered.encoded_by",
        "not hindrance(codec.schema)",
        "codec.schema",
        (f"{HISTORY_TABLES}::test_an_order_that_only_histories_need_stops_no_other_question[rules]",),
    ),
    Mutant(
        "a row that several people hold counts for the first of them alone",
        f"{JOINED}:_places",
        "place[holder]",
        "np.where(pd.Series(of_visit).duplicated().to_numpy(), -1, place[holder])",
        (f"{LINKED}::test_a_person_s_cells_are_told_by_their_own_rows_alone[clip 2.0]",),
    ),
    Mutant(
        "a row that names a person counts for all who hold its key",
        f"{JOINED}:_places",
        "table.with_unit",
        "False",
        (f"{LINKED}::test_a_row_that_names_a_person_is_that_person_s_alone",),
    ),
    Mutant(
        "an orphan counts for somebody",
        f"{JOINED}:joined",
        "np.flatnonzero(whose >= 0)",
        "np.arange(len(whose))",
        (f"{LINKED}::test_a_shared_row_counts_for_each_holder_and_an_orphan_for_nobody",),
    ),
    Mutant(
        "the rows below a visit that count are told by nothing secret",
        f"{JOINED}:_places",
        "lot(key.hex(), each[row])",
        "lot(each[row])",
        (f"{LINKED}::test_which_rows_below_a_visit_count_is_told_by_content_and_key",),
    ),
    Mutant(
        "in a database an orphan counts for somebody",
        f"{SEAL}.history_statements:Making._every",
        'f" JOIN {label(linked)} AS u ON u.unit = v.unit"',
        'f" LEFT JOIN {label(linked)} AS u ON u.unit = v.unit"',
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "in a database the first records of a unit count",
        f"{SEAL}.history_statements:Making._records",
        "_number(_hex('unit'))",
        "'0'",
        (f"{COUNTED_TESTS}::test_tables_of_odd_kinds_are_those_in_memory[duckdb]",),
    ),
    Mutant(
        "in a database the rows below a visit that count are told by nothing secret",
        f"{SEAL}.history_statements:keyed",
        "ibis.literal(key.hex())",
        "ibis.literal('')",
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "in a database all rows below a visit count",
        f"{SEAL}.history_statements:Making._chosen",
        "below.places",
        "99",
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "in a database a person counts once for each row",
        f"{SEAL}.history_statements:Making._people",
        'f"SELECT {kept} FROM (SELECT *, {ranked} FROM ({inner}) AS s) AS t WHERE drawn = 1"',
        'f"SELECT {kept} FROM (SELECT *, {ranked} FROM ({inner}) AS s) AS t WHERE drawn > 0"',
        (f"{COUNTED_TESTS}::test_no_person_moves_the_tables_by_more_than_the_sensitivity",),
    ),
    Mutant(
        "in a database rows of one person that differ in the day of death alone are alike",
        f"{SEAL}.history_statements:Making._people",
        "_text(list((codes | dates).values()))",
        "_text(list(codes.values()))",
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "in a database rows below a visit stand in the order of their codes",
        f"{SEAL}.history_statements:Making._chosen",
        'f"PARTITION BY {by} ORDER BY drawn"',
        'f"PARTITION BY {by} ORDER BY c0"',
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "rows below a visit of which all count stand in the order of their codes",
        f"{JOINED}:_places",
        "np.bincount(group, minlength=1)[group] > 1",
        "np.bincount(group, minlength=1)[group] > most",
        (f"{LINKED}::test_neither_place_nor_neighbour_tells_of_a_code",),
    ),
    Mutant(
        "the last level of a code is that of its last row",
        "synthdp.schema.number_levels:earlier",
        "rank[here[here - 1]]",
        "rank[here - 1]",
        (f"{LINKED}::test_the_last_level_of_a_code_is_that_of_a_plain_loop[0]",),
    ),
    Mutant(
        "the last level of a code is that of another unit",
        "synthdp.schema.number_levels:earlier",
        "(np.diff(owner[rank]) != 0) | (np.diff(code[rank]) != 0)",
        "np.diff(code[rank]) != 0",
        (f"{LINKED}::test_no_person_moves_the_tables_by_more_than_the_sensitivity[levels, clip 1.0]",),
    ),
    Mutant(
        "a level begins after its first number",
        "synthdp.schema.number_levels:level",
        "values[:, None] >= starts[codes]",
        "values[:, None] > starts[codes]",
        (f"{LINKED}::test_a_level_is_told_by_the_numbers_of_its_code_and_what_was_before_by_the_last_record_with_it",),
    ),
    Mutant(
        "a code comes again that another unit had",
        "synthdp.schema.rows_below:_again",
        "earlier(owner, record, code)",
        "earlier(np.zeros_like(owner), record, code)",
        (f"{LINKED}::test_a_person_s_cells_are_told_by_their_own_rows_alone[rows, clip 1.0]",),
    ),
    Mutant(
        "in a database the last level of a code is the next one",
        f"{COUNTED}:CountedHistories._looked_back",
        'f"PARTITION BY r.whose, b.{code} ORDER BY r.place"',
        'f"PARTITION BY r.whose, b.{code} ORDER BY r.place DESC"',
        (f"{COUNTED_TESTS}::test_tables_of_nasty_people_are_those_in_memory[duckdb-1.0]",),
    ),
    Mutant(
        "linked tables of a database are read at several moments",
        f"{SEAL}.history_statements:Making.kept",
        "self.table.moment()",
        "open(__file__)",
        (f"{COUNTED_TESTS}::test_linked_tables_are_read_at_one_moment",),
    ),
    Mutant(
        "the row of a person without a visit counts as one",
        f"{SEAL}.history_records:Histories.of",
        "is_record & (place >= first[owner]) & (place < first[owner] + most)",
        "(place >= first[owner]) & (place < first[owner] + most)",
        (f"{LINKED}::test_people_without_visits_have_cells_of_their_own",),
    ),
)

ONCE_UNNOTICED = (  # by the quick tests and the long ones, until a reviewer made these changes by hand
    Mutant(
        "rows between the margin and the clip are left as they are",
        "synthdp.seal.clipping:clipped",
        "norms > clip * MARGIN",
        "norms > clip",
        ("tests/seal/test_norms.py::test_rows_just_below_the_clip_are_shortened_to_the_margin_too[1.0]",),
    ),
    Mutant(
        "scores without room for rounding",
        f"{SEAL}.choice:Chosen.bounded",
        "MARGIN * np.array(scores)",
        "np.array(scores)",
        ("tests/seal/test_choice.py::test_scores_are_those_of_a_loop",),
    ),
    Mutant(
        "a threshold that forgets that answers are rounded",
        f"{SEAL}.learn:Domain.threshold",
        "step / 2",
        "0.0",
        tuple(f"{ROUNDED_UP}[{case}]" for case in ("1.0-1", "0.77-1", "5.2-3")),
    ),
    Mutant(
        "learned categories in the order of the records",
        f"{SEAL}.learn:Domain.noised",
        "sorted(bounded)",
        "list(bounded)",
        ("tests/seal/test_questions.py::test_the_order_of_learned_categories_is_not_that_of_the_records",),
    ),
    Mutant(
        "a grid of fewer records than a unit has",
        f"{SEAL}.learn:Grid.bounded",
        "within(records, self.max_records)",
        "pass",
        (f"{SENSITIVE}::test_a_question_that_assumes_fewer_records_of_a_unit_is_refused",),
    ),
    Mutant(
        "a block pays for more than it holds",
        "synthdp.seal.charging:Account.book",
        "self._reserved[event] >= count",
        "self._reserved[event] > 0",
        (f"{SENSITIVE}::test_a_block_pays_for_what_it_holds_and_for_no_more",),
    ),
    Mutant(
        "noise that a file names is not checked",
        "synthdp.seal.charging:_check",
        "found > budget.epsilon",
        "found > 1.01 * budget.epsilon",
        (f"{SENSITIVE}::test_noise_that_was_found_earlier_is_checked_against_the_budget",),
    ),
    Mutant(
        "noise of a selection's runs is seeded",
        "synthdp.seal.door:Sensitive._again",
        "int.from_bytes(self._noise.bits(7), 'little') if self.rehearsal else None",
        "int.from_bytes(self._noise.bits(7), 'little')",
        (f"{RUNS_ALONE}[None]",),
    ),
    Mutant(
        "warnings of a selection's runs count them",
        "synthdp.seal.best_of:best",
        "warnings.simplefilter('ignore')",
        "None",
        (f"{RUNS_ALONE}[5]",),
    ),
    Mutant(
        "coins under the key of the stream",
        "synthdp.noise.noise:Noise._rekey",
        "b'synthdp coins'",
        "b'synthdp stream'",
        ("tests/noise/test_noise.py::test_coins_are_of_a_key_of_their_own",),
    ),
    Mutant(
        "Laplace numbers near a boundary are taken for certain",
        "synthdp.noise.laplace:_steps",
        "0.5 - scale * ERROR",
        "0.5",
        (f"{VOTES}::test_laplace_numbers_within_the_error_of_a_boundary_are_looked_at_again",),
    ),
    *(
        Mutant(
            f"thresholds of one sample claim {what}", "synthdp.accounting.charges:_", old, new, (SAMPLED_THRESHOLDS,)
        )
        for what, old, new in (
            (
                "the largest of their deltas",
                "math.fsum((own_delta(query) for query in event.queries)) if event.rate > 0 else 0.0",
                "max((own_delta(query) for query in event.queries)) if event.rate > 0 else 0.0",
            ),
            (
                "their deltas times the rate",
                "math.fsum((own_delta(query) for query in event.queries)) if event.rate > 0 else 0.0",
                "math.fsum((own_delta(query) for query in event.queries)) * event.rate",
            ),
            ("an amplified Gaussian", "any((own_delta(query) for query in event.queries))", "False"),
        )
    ),
    Mutant(
        "a cap of an order between two that are known costs the lower",
        "synthdp.accounting.caps:_renyi",
        "next((place for place, known in enumerate(WIDE_ORDERS) if known >= order), None)",
        "max((place for place, known in enumerate(WIDE_ORDERS) if known <= order), default=0)",
        ("tests/accounting/test_filters.py::test_what_each_filter_takes_and_at_which_price",),
    ),
    Mutant(
        "a plan made anew may claim any delta",
        "synthdp.accounting.caps:_price",
        "delta > cap.delta * (1 + CAP_ALLOWANCE)",
        "False",
        (
            "tests/accounting/test_filters.py::"
            "test_no_noise_helps_a_plan_whose_thresholds_claim_more_than_the_caps_delta",
        ),
    ),
    Mutant(
        "a zCDP cap grows with the size of a group, not with its square",
        "synthdp.accounting.groups:_",
        "k * k * event.bound",
        "k * event.bound",
        (
            "tests/accounting/test_accounting_groups.py::"
            "test_a_zcdp_cap_costs_a_group_no_less_than_the_gaussian_that_may_have_filled_it[2]",
        ),
    ),
    Mutant(
        "several replaced units of a sample are taken for added ones",
        "synthdp.accounting.groups:_",
        "(event.sampler, event.relation) != ('poisson', 'add_remove')",
        "event.sampler != 'poisson'",
        (
            "tests/accounting/test_accounting_groups.py::"
            "test_several_replaced_units_of_a_sample_have_no_form_of_their_own[poisson]",
        ),
    ),
    Mutant(
        "under a cap a question of several events spends the first alone",
        "synthdp.seal.door:Sensitive._capped",
        "filtered.spend_all(events)",
        "filtered.spend_all(events[:1])",
        ("tests/seal/test_cap.py::test_every_event_of_a_question_is_spent",),
    ),
    Mutant(
        "confident answers have the noise of the check",
        f"{SEAL}.teachers.vote_aggregation:_Checked.asked",
        "noise.added(counts[chosen], self.sigma2)",
        "noise.added(counts[chosen], self.sigma1)",
        (f"{VOTES}::test_confident_answers_what_passes_and_no_more_than_it_may",),
    ),
    Mutant(
        "epsilon is 0 where the square of total variation is below delta",
        "synthdp.accounting.accountants.rdp:_least",
        "delta ** 2",
        "delta",
        (f"{LAWS}::test_however_faint_a_gaussian_nobody_says_less_than_its_exact_epsilon[1000.0-rdp]",),
    ),
    Mutant(
        "round-off of transforms is not taken off delta",
        "synthdp.accounting.accountants.pld:epsilon",
        "delta -= ROUND_OFF * repetitions",
        "pass",
        (f"{LAWS}::test_what_transforms_may_round_is_taken_off_delta_for_each_of_them",),
    ),
    Mutant(
        "tables of a selection's runs are told",
        f"{SEAL}.door:Sensitive._again",
        "twin._listener = None",
        "pass",
        ("tests/seal/test_selection.py::test_tables_of_runs_are_told_to_nobody",),
    ),
    Mutant(
        "a misfit moves as its lightest candidate does",
        f"{SEAL}.choice:Misfit.moves",
        "max(self.weights)",
        "min(self.weights)",
        ("tests/seal/test_choice.py::test_a_misfit_moves_as_its_heaviest_candidate_does",),
    ),
    Mutant(
        "half of the noise of a size",
        f"{SEAL}.learn:Size.noised",
        "self.noise",
        "self.noise / 2",
        ("tests/seal/test_questions.py::test_the_noise_drawn_is_the_noise_charged[size-3.0]",),
    ),
    Mutant(
        "noises of groups are taken as they are given",
        f"{SEAL}.clipping:layout",
        "math.hypot(*(1 / noise for noise in noises))",
        "1.0",
        ("tests/seal/test_clipping.py::test_bounds_and_scales_of_groups_make_up_one_query",),
    ),
    Mutant(
        "a threshold of a unit that replaces another claims its delta once",
        "synthdp.accounting.charges:_",
        "event.delta * (2 if event.relation == 'replace_one' else 1)",
        "event.delta",
        (f"{LAWS}::test_where_a_unit_replaces_another_a_threshold_claims_its_delta_twice",),
    ),
    Mutant(
        "a torn line charges nothing where a fit goes on",
        "synthdp.ledger.ledger:Ledger.mend",
        "not self._free(self.torn)",
        "False",
        ("tests/ledger/test_ledger.py::test_a_fit_that_goes_on_is_charged_for_a_torn_line",),
    ),
    Mutant(
        "Laplace noise on numbers that are not whole",
        "synthdp.noise.noise:Noise.added_laplace",
        "(flat == np.rint(flat)).all()",
        "True",
        ("tests/noise/test_noise.py::test_laplace_noise_is_added_to_whole_numbers_alone[0.5]",),
    ),
    Mutant(
        "Laplace noise on a grid that is coarser than whole numbers",
        "synthdp.noise.laplace:grid",
        "min(0, math.frexp(scale)[1] - FINE)",
        "math.frexp(scale)[1] - FINE",
        (f"{VOTES}::test_no_digit_of_a_count_is_left_without_laplace_noise[1000.0]",),
    ),
    Mutant(
        "which records of a unit count hangs on their place in the table",
        f"{SEAL}.records:_bounded",
        "names[member[order[position]]] + b'/%d' % place[position]",
        "b'/%d' % order[position]",
        (f"{SENSITIVE}::test_a_unit_keeps_at_most_its_records_and_the_choice_is_its_own",),
    ),
    Mutant(
        "a table that is asked twice moves once",
        f"{SEAL}.marginals:Marginals.sensitivity",
        "len(self.cliques)",
        "len(set(self.cliques))",
        ("tests/seal/test_questions.py::test_units_fill_the_sensitivity_where_it_is_tight[asked twice]",),
    ),
    Mutant(
        "a misfit to any number of records",
        f"{SEAL}.choice:Misfit.check",
        "np.abs(table).sum() > MOST_RECORDS",
        "False",
        (
            "tests/seal/test_choice.py::"
            "test_a_misfit_to_more_records_than_can_be_counted_exactly_is_refused[2147483648.0]",
        ),
    ),
    Mutant(
        "answers of a selection's runs are kept",
        f"{SEAL}.door:Sensitive._again",
        "twin._teachers, twin._terms, twin._answers = [], None, Answers()",
        "twin._teachers, twin._terms = [], None",
        ("tests/seal/test_selection.py::test_no_answer_of_a_run_is_kept_on_disk",),
    ),
    Mutant(
        "a run of a selection asks twice what was charged once",
        f"{SEAL}.best_of:only.enter",
        "counted(asked) - counted(plan)",
        "counted(asked) - counted((*plan, *plan))",
        ("tests/seal/test_selection.py::test_what_a_run_asks_beyond_its_plan_is_refused",),
    ),
    Mutant(
        "a sample with next to no noise moves by one contribution",
        "synthdp.accounting.accountants.pld:_mu",
        "contributions(event) / noise if noise < LEAST_SAMPLED_NOISE else 0.0",
        "1 / noise if noise < LEAST_SAMPLED_NOISE else 0.0",
        (f"{LAWS}::test_a_sample_with_next_to_no_noise_costs_what_all_units_do[replace_one-2]",),
    ),
    Mutant(
        "a fixed sample's noise is that of both contributions",
        "synthdp.accounting.accountants.analytic_moments:divergence",
        "joint_gaussian(event, 'analytic_moments') / contributions(event)",
        "joint_gaussian(event, 'analytic_moments')",
        ("tests/cli/test_epsilon.py::test_samplers",),
    ),
)

KINDS = (
    CLIPPING,
    NOISE,
    DOOR,
    SAMPLING,
    HANDED_IN,
    IN_DATABASES,
    STOPPED_FITS,
    TEACHERS_AND_VOTES,
    ACCOUNTING,
    RELEASES,
    DECLARED_AND_ENTERED,
    AUDITS,
    HISTORIES,
    ONCE_UNNOTICED,
)
MUTANTS = tuple(mutant for kind in KINDS for mutant in kind)
