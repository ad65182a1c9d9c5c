// Texts of the verbs of a protocol. Written by `python -m tests.protocols.make_verbs` from the verb table in
// protocols/language.py; do not edit.
export const VERBS = {
  "kidney.draw": "Kidney draws",
  "kidney.give_back": "Kidney gives back",
  "kidney.discard": "Kidney discards",
  "kidney.dialyse": "Kidney dialyses against",
  "gut.feed": "Gut feeds fresh",
  "gut.flush": "Gut flushes the feed line with",
  "liver.add_glucose": "Liver adds glucose",
  "liver.add_base": "Liver adds base",
  measure: "Measure",
  "liver.calibrate": "Calibrate the batch's pH probe",
  "immune.barrier": "Check the filter's passes",
  estimate: "Estimate the medium",
  sleep: "Wait",
  sleep_until: "Wait for the next cycle",
  sleep_until_clock: "Wait for the time of day",
  ask: "Ask a person",
  assay: "Assay",
  approve: "Wait for approval",
  note: "Record",
  together: "Run branches",
};
