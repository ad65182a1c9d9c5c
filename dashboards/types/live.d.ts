// What the page receives beyond the typed answers of the API: the graph of the rig, the live feed, grade and scores.

import type {
  ActuatorState,
  AlarmModel,
  FiringModel,
  HealthView,
  LedgerModel,
  RigView,
  RunModel,
  StateView,
  StepModel,
} from "./api.d.ts";

/** A vessel of the rig; volumes in µL. */
export interface Vessel {
  name: string;
  kind: string;
  contains: string | null;
  volume_ul: number;
  capacity_ul: number;
  floor_ul: number;
  ceiling_ul: number | null;
  zone: string | null;
  organoid: boolean;
}

/** A space whose temperature and gas another device keeps: an incubator, a refrigerator. */
export interface Zone {
  name: string;
  temperature_c: number;
  co2_pct: number;
  oxygen_pct: number;
}

/** A branch point without volume. */
export interface Junction {
  name: string;
}

/** A line from one vessel or junction to another, with the names of the devices on it. */
export interface Line {
  name: string;
  from: string;
  to: string;
  pump: string | null;
  valve: string | null;
  filter: string | null;
  dialyser: string | null;
  /** The position at which a selector connects it. */
  port: number | null;
  passive: boolean;
  organ: string | null;
  /** The heart whose line it is. */
  heart: string | null;
  /** Of a passive line: the estimated part that it takes of what leaves its beginning (0 to 1). */
  share: number | null;
}

/** A selector valve: which line is at each position, and the point that reports the present one. */
export interface Selector {
  name: string;
  valve: string;
  position: string;
  rest: number;
  ports: Record<string, string>;
}

/** A sensor's point and the vessel or line where it measures. */
export interface Probe {
  point: string;
  model: string;
  quantity: string;
  unit: string;
  at: string | null;
}

/** The points of the gas mixer, and the vessel that it supplies. */
export interface Gas {
  air: string | null;
  co2: string | null;
  o2: string | null;
  vessel: string | null;
}

/** The rig as a graph, without geometry. */
export interface SchematicGraph {
  vessels: Vessel[];
  junctions: Junction[];
  selectors: Selector[];
  lines: Line[];
  filters: Record<string, { pore_um: number; area_cm2: number; max_pressure_kpa: number }>;
  dialysers: Record<string, { vessel: string; cut_off_kda: number }>;
  zones: Zone[];
  probes: Probe[];
  heater: string | null;
  /** The vessel that the heater warms. */
  heated: string | null;
  gas: Gas | null;
  electrodes: { count: number; vessel: string | null } | null;
}

/** The rig with its typed graph. */
export type Rig = Omit<RigView, "schematic"> & { schematic: SchematicGraph };

/** What an actuator last reported. */
export interface ActuatorStatus {
  kind: "pump" | "switch" | "level";
  on: boolean;
  flow_ul_min?: number;
  delivered_ul?: number;
  setpoint_ml_min?: number;
  measured_ml_min?: number;
}

/** An actuator with its typed status. */
export type Actuator = Omit<ActuatorState, "status"> & { status: ActuatorStatus | null };

/** An amount (`ul`, within `low_ul` and `high_ul`) or a measurement (`value` in `unit`). */
export interface StepResult {
  ul?: number;
  low_ul?: number | null;
  high_ul?: number | null;
  value?: number;
  low?: number;
  high?: number;
  unit?: string;
  /** A person's answer to the step's question, with its unit. */
  answer?: string;
  /** The sha256 of an upload. */
  file?: string;
}

/** The arguments of a step that the page can show. */
export interface StepArguments {
  volume_ul?: number;
  point?: string;
  seconds?: number;
  elapsed_s?: number;
  kind?: string;
  to?: string;
  from?: string;
  selector?: string;
  chamber?: string;
}

/** One step of a run. */
export type Step = Omit<StepModel, "args" | "result"> & {
  args: StepArguments;
  result: StepResult | null;
};

/** The run that is shown. */
export type Run = Omit<RunModel, "progress"> & { progress: Step[] };

/** An alarm on the page; `gone` marks one that is no longer in the controller's list but keeps its row. */
export type Alarm = AlarmModel & { gone?: boolean };

/** A spike: time on the array's clock (s), and electrode. */
export type Spike = [at: number, electrode: number];

/** One part of a score. */
export interface ScorePart {
  value: number | string | null;
  score: number;
  low: number;
  high: number;
  known: number;
  weight: number;
  coverage: number;
  note: string;
}

/** One gate of a score; `open` is null while it is not known. */
export interface ScoreGate {
  open: boolean | null;
  text: string;
}

/** A score (0 to 1) with the range that is possible. */
export interface Rating {
  score: number;
  low: number;
  high: number;
  coverage: number;
  of_known: number | null;
  label: string;
}

/** A score with its parts and gates. */
export interface Score extends Rating {
  parts: Record<string, ScorePart>;
  gates: Record<string, ScoreGate>;
  limiting: string;
}

/** What may be asked of the tissue. */
export interface Stimulation {
  tier: number;
  load: number;
  level: string;
  reason: string;
  response_lost: boolean;
}

/** The estimate of viability (0 to 1): median, 90 % interval, and what is said of it. */
export interface ViabilityEstimate {
  value: number;
  low: number;
  high: number;
  status: "normal" | "loss" | "harmful";
  baseline: number;
  trend: "beginning" | "falling" | "rising" | "stable" | "unsteady";
  wide: boolean;
  sentences: string[];
  basis: string[];
  meaning: string;
  alarms: string[];
  causes: Record<string, number>;
  measured: string[];
  unmeasured: string[];
  quantities?: Record<string, { how: "measured" | "estimated" | "neither"; by: string; age_h: number | null }>;
  past: [number, number, number][];
  past_step_h: number;
  next: { name: string; cost: string; width: number; without: number } | null;
  label: string;
}

/** The estimate of viability, care rating and welfare, the rating made of both, and the stimulation envelope. */
export interface Scores {
  viability: ViabilityEstimate | null;
  care_rating: Score;
  baseline: unknown;
  welfare: Score;
  happiness: Rating;
  stimulation: Stimulation | null;
  unknown?: Record<string, string>;
}

/** One graded variable. */
export interface GradedVariable {
  grade: string | null;
  reason: string;
  limits: string;
  input: { value: number } | string | null;
}

/** The grade of the loop or of a batch. */
export interface Grade {
  utc: string;
  grade: string;
  limiting?: string;
  reasons?: string[];
  of?: string;
  cycle?: number;
  confidence: number;
  variables?: Record<string, GradedVariable>;
}

/** The whole state of the live feed. `spikes` holds the newest ones only. */
export interface LiveState extends Omit<StateView, "actuators"> {
  actuators: Record<string, Actuator>;
  emergency: string | null;
  run: Run | null;
  alarms: Alarm[];
  suppressed: Alarm[];
  speed: number | null;
  nerves: FiringModel | null;
  spikes: Spike[];
  health?: Pick<HealthView, "ok" | "reasons">;
  ledger?: LedgerModel;
  grade?: Grade | null;
  scores?: Scores | null;
}

/** One message of the feed: the whole state, or its members that changed and the paths of those that are gone. */
export type LiveMessage = Partial<LiveState> & { n?: number; gone?: string[][]; whole?: boolean; error?: unknown };
