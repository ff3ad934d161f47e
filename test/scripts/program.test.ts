// The linker, on objects made by hand: no compiler is needed. link.tools.ts compiles the program.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Keypair, TransactionInstruction } from '@solana/web3.js';
import { LiteSvm } from 'litesvm/dist/internal.js';
import t from 'tap';
import { ELF } from '../../scripts/object.ts';
import { link } from '../../scripts/program.ts';
import { fund, must } from '../fixtures/program.ts';

const FOLDER = fileURLToPath(new URL('../../program/', import.meta.url));
const COMMITTED = readFileSync(join(FOLDER, 'subscriptions.so'));
interface Part {
  name: string;
  flags?: number;
  bytes: Buffer;
  /** `[offset, type, symbol name]` */
  relocations?: [number, number, string][];
}

/**
 * An object file: sections, and symbols as name to `[section, offset]`, or to nothing when
 * undefined.
 */
function objectFile(parts: Part[], symbols: Record<string, [string, number] | []>): Buffer {
  const names = Object.keys(symbols);
  const sectionNames = [
    '',
    ...parts.map(({ name }) => name),
    ...parts.map(({ name }) => `.rel${name}`),
    '.symtab',
    '.strtab',
  ];
  const strtab = Buffer.from(`${['', ...names, ...sectionNames].join('\0')}\0`);
  const at = (name: string) => (name === '' ? 0 : strtab.indexOf(`\0${name}\0`) + 1);
  const symtab = Buffer.alloc((names.length + 1) * 24);
  names.forEach((name, i) => {
    const [section, offset] = symbols[name] ?? [];
    symtab.writeUInt32LE(at(name), (i + 1) * 24);
    symtab[(i + 1) * 24 + 4] = 0x10;
    symtab.writeUInt16LE(
      section === undefined ? 0 : 1 + parts.findIndex((part) => part.name === section),
      (i + 1) * 24 + 6,
    );
    symtab.writeBigUInt64LE(BigInt(offset ?? 0), (i + 1) * 24 + 8);
  });
  const relocations = parts.map(({ relocations: list = [] }) =>
    Buffer.concat(
      list.map(([offset, type, symbol]) => {
        const entry = Buffer.alloc(16);
        entry.writeUInt32LE(offset, 0);
        entry.writeUInt32LE(type, 8);
        entry.writeUInt32LE(names.indexOf(symbol) + 1, 12);
        return entry;
      }),
    ),
  );
  const symtabIndex = 1 + 2 * parts.length;
  const sections: [number, number, Buffer, number, number][] = [
    [0, 0, Buffer.alloc(0), 0, 0],
    ...parts.map(({ flags = ELF.SHF_ALLOC, bytes }): [number, number, Buffer, number, number] => [
      ELF.SHT_PROGBITS,
      flags,
      bytes,
      0,
      0,
    ]),
    ...relocations.map((bytes, i): [number, number, Buffer, number, number] => [
      ELF.SHT_REL,
      0,
      bytes,
      symtabIndex,
      i + 1,
    ]),
    [ELF.SHT_SYMTAB, 0, symtab, symtabIndex + 1, 1],
    [ELF.SHT_STRTAB, 0, strtab, 0, 0],
  ];
  let offset = 64;
  const headers = sections.map(([type, flags, bytes, linked, info], i) => {
    const header = Buffer.alloc(64);
    header.writeUInt32LE(at(sectionNames[i] ?? ''), 0);
    header.writeUInt32LE(type, 4);
    header.writeUInt32LE(flags, 8);
    header.writeUInt32LE(offset, 24);
    header.writeUInt32LE(bytes.length, 32);
    header.writeUInt32LE(linked, 40);
    header.writeUInt32LE(info, 44);
    offset += bytes.length;
    return header;
  });
  const start = Buffer.alloc(64);
  start.writeUInt16LE(ELF.ET_REL, 16);
  start.writeUInt16LE(ELF.EM_BPF, 18);
  start.writeUInt32LE(offset, 40);
  start.writeUInt16LE(sections.length, 60);
  start.writeUInt16LE(sections.length - 1, 62);
  return Buffer.concat([start, ...sections.map(([, , bytes]) => bytes), ...headers]);
}

const code = (...instructions: string[]) =>
  Buffer.from(instructions.join('').replaceAll(' ', ''), 'hex');
const TEXT = ELF.SHF_ALLOC | ELF.SHF_EXECINSTR;
const RETURN_0 = ['b7 00 0000 00000000', '95 00 0000 00000000'];
const CALL = '85 10 0000 ffffffff';
const LOAD_ADDRESS = (register: number, addend: number) => [
  `18 0${register} 0000 0${addend}000000`,
  '00 00 0000 00000000',
];

const entrypoint = objectFile(
  [
    {
      name: '.text',
      flags: TEXT,
      bytes: code(CALL, ...RETURN_0),
      relocations: [[0, ELF.R_BPF_64_32, 'greet']],
    },
  ],
  { entrypoint: ['.text', 0], greet: [] },
);
const greet = objectFile(
  [
    {
      name: '.text',
      flags: TEXT,
      bytes: code(...LOAD_ADDRESS(1, 2), 'b7 02 0000 05000000', CALL, ...RETURN_0),
      relocations: [
        [0, ELF.R_BPF_64_64, 'GREETING'],
        [24, ELF.R_BPF_64_32, 'sol_log_'],
      ],
    },
    { name: '.rodata', bytes: Buffer.from('unused') },
    { name: '.rodata.str1.1', bytes: Buffer.from('> hello <') },
    { name: '.comment', flags: 0, bytes: Buffer.from('/some/path/of/a/machine') },
  ],
  { greet: ['.text', 0], GREETING: ['.rodata.str1.1', 0], sol_log_: [] },
);

void t.test(
  'a linked program with a call across objects, a string and a syscall loads and runs',
  async (t) => {
    for (const objects of [
      [entrypoint, greet],
      [greet, entrypoint],
    ]) {
      const program = link(objects);
      t.notOk(program.includes('/some/path'), 'comments are left out');
      const svm = new LiteSvm();
      const [payer, id] = [Keypair.generate(), Keypair.generate().publicKey];
      svm.addProgram(id.toBytes(), program);
      const chain = { svm, mint: id };
      fund(chain, payer.publicKey);
      const result = must(chain, [payer], new TransactionInstruction({ programId: id, keys: [] }));
      t.match(result.logs()[1], 'Program log: hello');
    }
  },
);

void t.test('the linker refuses objects that cannot be loaded and names the reason', async (t) => {
  const data = (flags: number): Part => ({ name: '.data', flags, bytes: Buffer.alloc(8) });
  const empty = objectFile([], {});
  const pointer: Part = {
    name: '.rodata',
    bytes: Buffer.alloc(8),
    relocations: [[0, ELF.R_BPF_64_64, 'it']],
  };
  const jump = objectFile(
    [
      {
        name: '.text',
        flags: TEXT,
        bytes: code(CALL),
        relocations: [[0, ELF.R_BPF_64_32, 'memcpy']],
      },
    ],
    {
      memcpy: [],
    },
  );
  t.throws(() => link([entrypoint]), /greet is not defined/);
  t.throws(() => link([jump]), /memcpy is not defined/);
  t.throws(() => link([entrypoint, greet, greet]), /greet is defined twice/);
  t.throws(() => link([greet]), /no function entrypoint/);
  t.throws(() => link([empty]), /no function entrypoint/);
  t.throws(
    () => link([objectFile([data(ELF.SHF_ALLOC | ELF.SHF_WRITE)], {})]),
    /\.data: a program can have no writable data/,
  );
  t.throws(
    () => link([objectFile([pointer], { it: ['.rodata', 0] })]),
    /a pointer in read-only data/,
  );
  t.throws(() => link([COMMITTED]), /not an object file/);
});
