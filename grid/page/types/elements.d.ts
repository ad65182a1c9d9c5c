// What elements are made of (static/js/elements.js).

export type Child = Node | string | number | null | false | Child[];
export type Attributes = Record<string, string | boolean>;
