// What `import t from 'tap'` means in a compiled test file (test/compile.ts): the file's own test,
// in place of tap's root, which many files would share.
import { fileTest } from './fixtures/file.ts';

export default fileTest();
