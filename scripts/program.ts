// Builds program/subscriptions.so: compiles program/*.c with clang-19 and links the objects into a
// file that the Solana loader accepts. `--check` builds in memory and compares with the committed
// file.
//
// No linker of a Linux distribution makes such a file. The loader maps the image as one piece, so
// every address must equal its file offset, in ELF64, ET_DYN, EM_BPF, flags 0 (SBPF version 0):
//
//   ELF header | 3 program headers | .text | .rodata | .dynamic | .dynsym | .dynstr | .rel.dyn
//   | .shstrtab | section headers
//
// The loader relocates .text by .rel.dyn. It moves the address in an `lddw` into the mapped image
// (R_BPF_64_RELATIVE), and resolves a call of a syscall by its name (R_BPF_64_32). Calls between
// functions are relative. There is no writable data, and no pointer outside of .text.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ELF, readObject, type Section, type Symbol } from './object.ts';

const HERE = fileURLToPath(new URL('../program/', import.meta.url));
const OUTPUT = join(HERE, 'subscriptions.so');
export const CLANG = 'clang-19';
const FLAGS = [
  '--target=bpfel',
  '-mcpu=v1',
  '-O2',
  '-ffreestanding',
  '-fno-builtin',
  '-fno-jump-tables',
  '-mllvm',
  '-bpf-stack-size=4096',
];
const WARNINGS = [
  '-Wall',
  '-Wextra',
  '-Werror',
  '-Wno-missing-field-initializers',
  '-Wno-unused-const-variable',
];

const ENTRY = 'entrypoint';
const INSTRUCTION = 8; // bytes; an lddw is twice as long
const HEADERS = 64 + 3 * 56; // the ELF header and the program headers

type Kind = '.text' | '.rodata';

const words = (...values: number[]) => {
  const bytes = Buffer.alloc(values.length * 8);
  values.forEach((value, i) => bytes.writeBigUInt64LE(BigInt(value), i * 8));
  return bytes;
};

/** A buffer that grows. append() returns the offset at which the appended bytes begin. */
function growing() {
  const pieces: Buffer[] = [];
  let size = 0;
  const append = (bytes: Uint8Array, alignment = 1) => {
    const offset = Math.ceil(size / alignment) * alignment;
    pieces.push(Buffer.alloc(offset - size), Buffer.from(bytes));
    size = offset + bytes.length;
    return offset;
  };
  return { append, bytes: () => Buffer.concat(pieces) };
}

/**
 * Returns the output section for a section of an object. Returns undefined for a section that the
 * program does not contain, such as symbols, relocations and comments.
 */
function kindOf({ name, type, flags, bytes }: Section): Kind | undefined {
  if (!(flags & ELF.SHF_ALLOC) || (bytes.length === 0 && type !== ELF.SHT_NOBITS)) return undefined;
  if (type !== ELF.SHT_PROGBITS || flags & ELF.SHF_WRITE)
    throw new Error(`section ${name}: a program can have no writable data`);
  return flags & ELF.SHF_EXECINSTR ? '.text' : '.rodata';
}

/**
 * Links BPF object files into a program for the Solana loader. The same objects in the same order
 * give the same bytes.
 * @throws when a symbol is missing or defined twice, or something in the objects cannot be loaded.
 */
export function link(files: readonly Buffer[]): Buffer {
  const objects = files.map(readObject);
  const merged = { '.text': growing(), '.rodata': growing() };
  const places = new Map<Section, { kind: Kind; offset: number }>();
  const globals = new Map<string, Symbol>();
  for (const { sections, symbols } of objects) {
    for (const section of sections) {
      const kind = kindOf(section);
      if (kind !== undefined)
        places.set(section, { kind, offset: merged[kind].append(section.bytes, 8) });
    }
    for (const symbol of symbols.filter(({ global, section }) => global && section !== undefined)) {
      if (globals.has(symbol.name)) throw new Error(`${symbol.name} is defined twice`);
      globals.set(symbol.name, symbol);
    }
  }

  const image = growing();
  image.append(Buffer.alloc(HEADERS)); // the headers are written last
  const [text, rodata] = [merged['.text'].bytes(), merged['.rodata'].bytes()];
  const base = { '.text': image.append(text, 8), '.rodata': image.append(rodata, 8) };
  const addressOf = (section: Section, offset: number) => {
    const place = places.get(section);
    if (place === undefined)
      throw new Error(`section ${section.name} is referred to but not part of the program`);
    return base[place.kind] + place.offset + offset;
  };

  const names = growing();
  names.append(Buffer.of(0));
  const syscalls = new Map<string, { index: number; name: number }>();
  const dynamicRelocations: Buffer[] = [];
  const relocate = (address: number, type: number, symbol: number) =>
    dynamicRelocations.push(words(address, symbol * 2 ** 32 + type));
  for (const { section, offset, type, symbol } of objects.flatMap(
    ({ relocations }) => relocations,
  )) {
    const kind = places.get(section)?.kind;
    if (kind === undefined) continue; // a relocation of a debugging section
    if (kind === '.rodata')
      throw new Error(`section ${section.name}: a pointer in read-only data cannot be relocated`);
    const address = addressOf(section, offset);
    const immediate = address - base['.text'] + 4;
    const addend = text.readInt32LE(immediate);
    const defined = symbol.section === undefined ? globals.get(symbol.name) : symbol;
    if (type === ELF.R_BPF_64_64 && defined?.section !== undefined) {
      text.writeUInt32LE(addressOf(defined.section, defined.value + addend), immediate);
      relocate(address, ELF.R_BPF_64_RELATIVE, 0);
    } else if (type === ELF.R_BPF_64_32 && defined?.section !== undefined) {
      // A call's target is the number of instructions after the next instruction. For a symbol of a
      // section, clang has already written this number into the call.
      const into = defined.type === ELF.STT_SECTION ? (addend + 1) * INSTRUCTION : defined.value;
      text.writeInt32LE((addressOf(defined.section, into) - address) / INSTRUCTION - 1, immediate);
    } else if (type === ELF.R_BPF_64_32 && symbol.name.startsWith('sol_')) {
      const known = syscalls.get(symbol.name);
      const syscall = known ?? {
        index: syscalls.size + 1,
        name: names.append(Buffer.from(`${symbol.name}\0`)),
      };
      syscalls.set(symbol.name, syscall);
      text.writeInt32LE(-1, immediate);
      relocate(address, ELF.R_BPF_64_32, syscall.index);
    } else {
      throw new Error(`${symbol.name || section.name} is not defined (relocation type ${type})`);
    }
  }

  const dynsym = Buffer.alloc((syscalls.size + 1) * 24);
  for (const { index, name } of syscalls.values()) {
    dynsym.writeUInt32LE(name, index * 24);
    dynsym[index * 24 + 4] = 0x10; // global, no type, no section: the loader finds it by name
  }
  const [dynstr, relDyn] = [names.bytes(), Buffer.concat(dynamicRelocations)];
  const dynamic = Buffer.alloc(9 * 16);
  const dynamicAt = image.append(dynamic, 8);
  const [dynsymAt, dynstrAt, relDynAt] = [
    image.append(dynsym, 8),
    image.append(dynstr, 8),
    image.append(relDyn, 8),
  ];
  Buffer.concat([
    ...[
      words(ELF.DT_REL, relDynAt),
      words(ELF.DT_RELSZ, relDyn.length),
      words(ELF.DT_RELENT, 16),
      words(ELF.DT_TEXTREL, 0),
    ],
    ...[
      words(ELF.DT_SYMTAB, dynsymAt),
      words(ELF.DT_SYMENT, 24),
      words(ELF.DT_STRTAB, dynstrAt),
      words(ELF.DT_STRSZ, dynstr.length),
    ],
    words(ELF.DT_NULL, 0),
  ]).copy(dynamic);

  const shstrtab = growing();
  const sectionHeaders: Buffer[] = [];
  const section = (
    name: string,
    type: number,
    flags: number,
    offset: number,
    size: number,
    [linked, info, entry] = [0, 0, 0],
  ) => {
    const header = words(
      0,
      flags,
      flags & ELF.SHF_ALLOC ? offset : 0,
      offset,
      size,
      0,
      type === 0 ? 0 : 8,
      entry,
    );
    header.writeUInt32LE(shstrtab.append(Buffer.from(`${name}\0`)), 0);
    header.writeUInt32LE(type, 4);
    header.writeUInt32LE(linked, 40);
    header.writeUInt32LE(info, 44);
    sectionHeaders.push(header);
  };
  section('', 0, 0, 0, 0);
  section('.text', ELF.SHT_PROGBITS, ELF.SHF_ALLOC | ELF.SHF_EXECINSTR, base['.text'], text.length);
  section('.rodata', ELF.SHT_PROGBITS, ELF.SHF_ALLOC, base['.rodata'], rodata.length);
  section('.dynamic', ELF.SHT_DYNAMIC, ELF.SHF_ALLOC, dynamicAt, dynamic.length, [5, 0, 16]);
  section('.dynsym', ELF.SHT_DYNSYM, ELF.SHF_ALLOC, dynsymAt, dynsym.length, [5, 1, 24]);
  section('.dynstr', ELF.SHT_STRTAB, ELF.SHF_ALLOC, dynstrAt, dynstr.length);
  section('.rel.dyn', ELF.SHT_REL, ELF.SHF_ALLOC, relDynAt, relDyn.length, [4, 0, 16]);
  const shstrtabAt = image.append(Buffer.alloc(0), 8);
  section(
    '.shstrtab',
    ELF.SHT_STRTAB,
    0,
    shstrtabAt,
    shstrtab.bytes().length + '.shstrtab\0'.length,
  );
  image.append(shstrtab.bytes());
  const sectionHeadersAt = image.append(Buffer.concat(sectionHeaders), 8);

  const entry = globals.get(ENTRY);
  if (entry?.section === undefined) throw new Error(`no function ${ENTRY}`);
  const header = Buffer.alloc(64);
  Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]).copy(header); // 64 bits, little endian, version 1
  header.writeUInt16LE(ELF.ET_DYN, 16);
  header.writeUInt16LE(ELF.EM_BPF, 18);
  header.writeUInt32LE(1, 20);
  words(addressOf(entry.section, entry.value), 64, sectionHeadersAt).copy(header, 24);
  [64, 56, 3, 64, sectionHeaders.length, sectionHeaders.length - 1].forEach((value, i) =>
    header.writeUInt16LE(value, 52 + i * 2),
  );
  const segment = (type: number, flags: number, offset: number, end: number) =>
    Buffer.concat([
      words(type + flags * 2 ** 32, offset, offset, offset, end - offset, end - offset, 8),
    ]);
  const program = image.bytes();
  text.copy(program, base['.text']);
  dynamic.copy(program, dynamicAt);
  Buffer.concat([
    header,
    segment(ELF.PT_LOAD, ELF.PF_R | ELF.PF_X, base['.text'], base['.text'] + text.length),
    segment(ELF.PT_LOAD, ELF.PF_R, base['.rodata'], relDynAt + relDyn.length),
    segment(ELF.PT_DYNAMIC, ELF.PF_R, dynamicAt, dynamicAt + dynamic.length),
  ]).copy(program);
  return program;
}

/**
 * Compiles one C file of `folder`. @throws when clang-19 is missing (ENOENT) or the source is
 * faulty.
 */
function compile(folder: string, source: string): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'billing-program-'));
  try {
    const object = join(directory, 'object.o');
    // clang runs inside the folder with a bare file name, so that the object contains no path.
    execFileSync(CLANG, [...FLAGS, ...WARNINGS, '-c', source, '-o', object], {
      cwd: folder,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    return readFileSync(object);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Compiles the C files of a folder in the order of their names and links them. */
export function build(folder = HERE): Buffer {
  const sources = readdirSync(folder).filter((name) => name.endsWith('.c'));
  return link(sources.sort().map((source) => compile(folder, source)));
}

function main(args: readonly string[]): number {
  let built: Buffer;
  try {
    built = build();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    console.error(`${CLANG} not found. On Debian and Ubuntu: apt-get install ${CLANG}`);
    return 2;
  }
  if (!args.includes('--check')) {
    writeFileSync(OUTPUT, built);
    console.log(`program/subscriptions.so: ${built.length} bytes`);
    return 0;
  }
  if (built.equals(readFileSync(OUTPUT))) return 0;
  console.error(
    'program/subscriptions.so is not what its source gives: run `npm run build:program` and commit the result.',
  );
  return 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exitCode = main(process.argv.slice(2));
