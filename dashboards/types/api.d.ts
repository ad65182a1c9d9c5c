// Generated from dashboards/models by `make types`; do not edit.

export interface ActuatorState {
  status: Record<string, unknown> | null;
  commanded: Record<string, unknown> | null;
  basal: Record<string, unknown>;
  guarantee: "device" | "guard" | "host";
  at_s: number | null;
  lease_until_s: number | null;
  fault: string;
}

export interface AlarmModel {
  id: string;
  kind: string;
  source: string;
  state: string;
  priority: string;
  detail: string;
  raised_utc: string;
  consequence: string;
  response: string;
  respond_within: string;
  acknowledged_by: string;
  suppressed_by: string;
  suppression_reason: string;
  until_utc: string;
}

export interface AlarmsModel {
  alarms: AlarmModel[];
  suppressed: AlarmModel[];
}

export interface ArrayAgentModel {
  name: string;
  role: string;
  revoked: boolean;
}

export interface AssayRequestModel {
  run: string;
  analytes: string[];
  vessel: string;
  purpose: "medium" | "tissue";
  saving_ml: number | null;
  demand_ml: number | null;
  days: number;
  since_utc: string;
  text: string;
}

export interface AssayRow {
  id: number;
  entered_utc: string;
  analyte: string;
  vessel: string;
  where: "loop" | "spent";
  taken_utc: string;
  value: number;
  sd: number;
  unit: string;
  used: boolean;
  sure: boolean;
  text: string;
  volume: string;
  method: string;
  user: string;
  reason: string;
  off_sd: number | null;
  expected: Bounds | null;
}

export interface AssaysModel {
  assays: AssayRow[];
  wanted: AssayRequestModel[];
}

export interface AuditModel {
  entries: EntryModel[];
}

export interface Bounds {
  value: number;
  low: number;
  high: number;
}

export interface BudgetModel {
  requester: string;
  name: string;
  used: number;
  limit: number;
  unit: string;
}

export interface CameraImages {
  camera: string;
  chamber: string;
  every_s: number;
  newest: FrameModel | null;
  usable: FrameModel | null;
  frames: number;
  problem: string;
}

export interface CapabilityView {
  function: string;
  title: string;
  available: boolean;
  lacks: string[];
  without: string;
}

export interface DecisionModel {
  seq: number;
  utc: string;
  run: string | null;
  cycle: number;
  of: "loop" | "batch";
  grade: string;
  limiting: string;
  grade_reasons: string[];
  action: string;
  eur: number;
  risk: number;
  worst: string;
  reason: string;
  others: WeighedUp[];
  drawn_ml: number;
  fresh_ml: number;
  given_back_ml: number;
  discarded_ml: number;
  dialysate_ml: number;
}

export interface DecisionsModel {
  decisions: DecisionModel[];
  retreat: RetreatModel | null;
}

export interface DiscardedModel {
  where: string;
  what: string;
  count: number;
  lost: boolean;
}

export interface ElectrodesModel {
  states: string[];
  rates_hz: (number | null)[];
  amplitudes_uv: (number | null)[];
  noise_uv: (number | null)[];
  impedances_kohm: (number | null)[];
  bursts_min: (number | null)[];
  deviation: (number | null)[];
  muted_pct: (number | null)[];
  muted_by: Record<string, (number | null)[]>;
  x_um: (number | null)[];
  y_um: (number | null)[];
  geometry: string;
}

export interface EntryModel {
  seq: number;
  utc: string;
  kind: string;
  run: string | null;
  body: Record<string, unknown>;
  sha256: string;
}

export interface Error {
  what: string;
  where: string;
  cause: string;
  action: string;
}

export interface Errored {
  error: Error;
}

export interface FaultKind {
  kind: string;
  group: string;
  meaning: string;
  targets: string[];
  momentary: boolean;
}

export interface FaultsView {
  kinds: FaultKind[];
  lasting: LastingFault[];
}

export interface FiringModel {
  at_s: number;
  firing_rate_hz: number;
  active_electrodes: number;
  electrodes: number;
  observed_electrodes: number;
  rates_hz: number[];
  states: string[];
}

export interface FrameModel {
  utc: string;
  src: string | null;
  usable: boolean;
  verdict: string;
  features: ImageFeatures | null;
  growth: ImageGrowth | null;
  outline: string;
  objects: number;
  note: string;
}

export interface Goal {
  point: string;
  unit: string;
  setpoint: number | null;
  low: number | null;
  high: number | null;
}

export interface HealthView {
  ok: boolean;
  reasons: string[];
  tick_age_s: number | null;
}

export interface HeartView {
  name: string;
  line: string;
  pump: string | null;
  flow_ul_min: number;
  chambers: Record<string, number>;
}

export interface HistoryView {
  point: string;
  unit: string;
  begin_utc_s: number;
  end_utc_s: number;
  rows: [number, number, number, number][];
}

export interface ImageFeatures {
  area_mm2: number;
  area_sd_mm2: number;
  diameter_mm: number;
  feret_mm: number;
  circularity: number;
  solidity: number;
  rim_width_um: number;
  opacity: number;
  core_opacity: number;
  entropy_bits: number;
}

export interface ImageGrowth {
  per_day: number;
  low: number;
  high: number;
  images: number;
  span_d: number;
}

export interface ImagesModel {
  cameras: CameraImages[];
}

export interface LastingFault {
  number: number;
  kind: string;
  target: string;
  meaning: string;
  left_s: number | null;
}

export interface LeaseModel {
  requester: string;
  electrodes: number[];
  held: boolean;
  ends_in_s: number;
  silent_s: number;
}

export interface LeasesModel {
  answers: boolean;
  agents: ArrayAgentModel[];
  leases: LeaseModel[];
  budgets: BudgetModel[];
}

export interface LedgerModel {
  fresh_ml: number;
  drawn_ml: number;
  given_back_ml: number;
  recycled_ml: number;
  discarded_ml: number;
  glucose_ml: number;
  base_ml: number;
  evaporated_ml: number;
  mass_balance_error_ml: number;
  mass_balance_uncertainty_ml: number;
  days: number;
  scheduled_ml: number;
  saved_fraction: number | null;
  bound_ml: number | null;
  bound_ratio: number | null;
  vessels: VesselContent[];
}

export interface LibraryModel {
  versions: VersionModel[];
}

export interface OwnAccount {
  name: string;
  role: string;
  shared: boolean;
  session: string;
  password_until_utc: string | null;
  sessions: SessionModel[];
}

export interface ParamView {
  name: string;
  unit: string;
  default: number;
  low: number;
  high: number;
  help: string;
}

export interface ProbeFigure {
  name: string;
  meaning: string;
  unit: string;
  value: number | null;
  low: number;
  high: number;
  sound: boolean;
}

export interface ProbeModel {
  point: string;
  at_utc: string | null;
  problem: string;
  figures: ProbeFigure[];
}

export interface ProbesModel {
  probes: ProbeModel[];
}

export interface ProtocolView {
  name: string;
  title: string;
  params: ParamView[];
}

export interface ProtocolsView {
  protocols: ProtocolView[];
}

export interface QuestionModel {
  step: number;
  message: string;
  kind: string;
  wants: string;
  unit: string;
  choices: string[];
  default: string;
  accept: string[];
}

export interface ReadingView {
  value: number | null;
  unit: string;
  quality: "good" | "suspect" | "stale" | "missing";
  stable: boolean;
  at_s: number | null;
  detail: string;
}

export interface RecordsView {
  rig_id: string;
  discarded: DiscardedModel[];
}

export interface ResponsesModel {
  electrode: number;
  seconds: number;
  trials: number;
  overlapping: number;
  edges_ms: number[];
  counts: number[];
  observed_s: number[];
  rate_hz: (number | null)[];
  baseline_hz: number | null;
  baseline_low_hz: number | null;
  baseline_high_hz: number | null;
}

export interface RetreatModel {
  seq: number;
  utc: string;
  run: string | null;
  text: string;
  exchanged_ml_d: number;
}

export interface RigView {
  name: string;
  time_zone: string;
  description: string;
  simulated: boolean;
  mixed: boolean;
  faults: boolean;
  tissue: TissueView[];
  electrodes: number;
  cameras: string[];
  goals: Goal[];
  hearts: HeartView[];
  mass_point: string | null;
  periods_s: Record<string, number>;
  return_valve: string | null;
  shared_lines: Record<string, string[]>;
  schematic: Record<string, unknown>;
  capabilities: CapabilityView[];
  user: string;
  role: string;
}

export interface RunModel {
  id: string;
  protocol: string;
  state: string;
  ended: boolean;
  step: number;
  started_utc: string;
  params: Record<string, number>;
  progress: StepModel[];
  messages: string[];
  question: QuestionModel | null;
}

export interface SessionModel {
  id: string;
  name: string;
  role: string;
  until_utc: string;
  opened_utc: string | null;
  used_utc: string | null;
  opened_with: string;
  device: string;
  source: string;
}

export interface StateView {
  at_s: number;
  utc: string;
  readings: Record<string, ReadingView>;
  actuators: Record<string, ActuatorState>;
  volumes: Record<string, VolumeView>;
  trips: TripView[];
  links: Record<string, string>;
}

export interface StepModel {
  n: number;
  verb: string;
  args: Record<string, unknown>;
  state: string;
  result: Record<string, unknown> | null;
  branch: string;
}

export interface StimulationModel {
  decision: number;
  session_utc: string;
  at_s: number;
  requester: string;
  purpose: string;
  electrodes: number[];
  accepted: boolean;
  limiting: string;
  reasons: string[];
  charge_nc: number;
  pulses: Record<string, number>;
}

export interface StimulationsModel {
  records: StimulationModel[];
  more: boolean;
}

export interface TimeLapseModel {
  camera: string;
  chamber: string;
  frames: FrameModel[];
}

export interface TissueView {
  chamber: string;
  count: number;
  diameter_mm: number;
  age_d: number;
  batch: string;
  cell_line: string;
  capacity: "ordinary" | "advanced";
}

export interface TripView {
  interlock: string;
  point: string;
  detail: string;
  since_s: number | null;
  actuators: string[];
  latched: boolean;
}

export interface VersionModel {
  sha256: string;
  name: string;
  title: string;
  suffix: string;
  state: string;
  submitted_utc: string;
  submitted_by: string;
  reviewed_by: string;
  released_by: string;
  reason: string;
}

export interface VesselContent {
  name: string;
  ml: number;
  sd_ml: number;
}

export interface VolumeView {
  ul: number;
  sd_ul: number;
}

export interface WaveformsModel {
  electrode: number;
  sample_rate_hz: number;
  before: number;
  traces_uv: number[][];
}

export interface WeighedUp {
  action: string;
  eur: number;
  refused: string;
  still: string;
}
