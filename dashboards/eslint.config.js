// The rules for the page's scripts. Types are checked by tsc (tsconfig.json), the layout by prettier.

import js from "@eslint/js";
import globals from "globals";

const MARKUP = "Set text with textContent, make elements with h() or s(): markup from data is never parsed.";

export default [
  js.configs.recommended,
  {
    files: ["**/static/js/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      complexity: ["error", 10],
      "consistent-return": "error",
      "default-param-last": "error",
      eqeqeq: "error",
      "max-len": ["error", { code: 120 }],
      "max-lines": ["error", 500],
      "no-console": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-nested-ternary": "error",
      "no-new-func": "error",
      "no-param-reassign": "error",
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property, message: MARKUP })),
        { object: "document", property: "write", message: MARKUP },
      ],
      "no-shadow": ["error", { builtinGlobals: false }],
      "no-throw-literal": "error",
      "no-unused-vars": "error",
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-var": "error",
      "object-shorthand": "error",
      "one-var": ["error", "never"],
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
];
