// Types of the element functions in dom.js.

/** A child of an element, or a list of children; null, undefined and false stand for no child. */
export type Child = Node | string | number | null | undefined | false | ChildList;

/** A list of children, which may be nested. */
export interface ChildList extends ReadonlyArray<Child> {}

/**
 * The value of an attribute: `text` sets the text content, `on…` adds an event listener, true sets an empty attribute,
 * and null, undefined and false set nothing.
 */
export type Attribute = string | number | boolean | null | undefined | ((event: any) => void);

/** The attributes of an element by name. */
export type Attributes = Record<string, Attribute>;
