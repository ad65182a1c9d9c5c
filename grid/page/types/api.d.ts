// Generated from grid/page/models.py by `make types`; do not edit.

export interface BaselineModel {
  name: string;
  score: number;
}

export interface FigureModel {
  label: string;
  value: number;
  unit: string;
}

export interface HeadModel {
  rows: number;
  key: string;
  checkpoint: string;
  confirmed_rows: number;
  witnesses: WitnessModel[];
  watched: WatchedLogModel[];
  last: RecordModel[];
}

export interface HubModel {
  hub: string;
  utc: string;
  members_count: number;
  connected_count: number;
  members: MemberModel[];
  tissues: OfferedTissueModel[];
  work: WorkLeaseModel[];
  boards: RankingModel[];
  log: HeadModel;
}

export interface MemberModel {
  id: string;
  name: string;
  kind: string;
  state: string;
  reason: string;
  connected: boolean;
  seen_utc: string;
  measured_utc: string;
  roles: string[];
  refusals: RefusalModel[];
  figures: FigureModel[];
  work: string[];
}

export interface OfferedTissueModel {
  lab: string;
  organoid: string;
  connected: boolean;
  simulated: boolean;
  electrodes: number;
  sample_rate_hz: number;
  stimulation: boolean;
  reason: string;
  holders: TissueLeaseModel[];
  queue: TissueLeaseModel[];
}

export interface RankModel {
  rank: number | null;
  name: string;
  member: string;
  state: string;
  score: number | null;
  reason: string;
}

export interface RankingModel {
  key: string;
  title: string;
  metric: string;
  unit: string;
  rotation: number | null;
  baselines: BaselineModel[];
  rows: RankModel[];
}

export interface RecordModel {
  number: number;
  utc: string;
  kind: string;
  about: string;
}

export interface RefusalModel {
  role: string;
  reasons: string[];
}

export interface TissueLeaseModel {
  lease: string;
  state: string;
  member: string;
  mode: string;
  electrodes: string;
  purpose: string;
  fence: number;
  position: number;
  until_utc: string;
  charge_nc: number;
  pulses: number;
  reason: string;
}

export interface WatchedLogModel {
  name: string;
  rows: number;
  utc: string;
  trouble: string;
}

export interface WitnessModel {
  name: string;
  rows: number;
  utc: string;
  trouble: string;
}

export interface WorkLeaseModel {
  lease: string;
  job: string;
  holder: string;
  state: string;
  reason: string;
  engine: string;
  preset: string;
  outer_steps: number;
  ranks: WorkRankModel[];
}

export interface WorkRankModel {
  member: string;
  state: string;
  outer: number;
  loss: number | null;
  sent_bytes: number;
  scores: Record<string, number>;
  reason: string;
}
