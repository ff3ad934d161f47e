// Reads the ELF object files that clang writes for BPF: sections, symbols and relocations.

/** The ELF constants that this project uses. */
export const ELF = {
  ...{ EM_BPF: 247, ET_REL: 1, ET_DYN: 3, PT_LOAD: 1, PT_DYNAMIC: 2, PF_X: 1, PF_R: 4 },
  ...{
    SHT_PROGBITS: 1,
    SHT_SYMTAB: 2,
    SHT_STRTAB: 3,
    SHT_DYNAMIC: 6,
    SHT_NOBITS: 8,
    SHT_REL: 9,
    SHT_DYNSYM: 11,
  },
  ...{ SHF_WRITE: 1, SHF_ALLOC: 2, SHF_EXECINSTR: 4, STT_SECTION: 3 },
  ...{
    DT_NULL: 0,
    DT_STRTAB: 5,
    DT_SYMTAB: 6,
    DT_STRSZ: 10,
    DT_SYMENT: 11,
    DT_REL: 17,
    DT_RELSZ: 18,
    DT_RELENT: 19,
    DT_TEXTREL: 22,
  },
  ...{ R_BPF_64_64: 1, R_BPF_64_RELATIVE: 8, R_BPF_64_32: 10 },
} as const;

export interface Section {
  readonly name: string;
  readonly type: number;
  readonly flags: number;
  readonly bytes: Buffer;
  /** For relocations, the section to relocate. For symbols, `link` is their string table. */
  readonly info: number;
  readonly link: number;
}

export interface Symbol {
  readonly name: string;
  readonly type: number;
  readonly global: boolean;
  /** The section that defines the symbol. Undefined if this object does not define it. */
  readonly section: Section | undefined;
  readonly value: number;
}

interface Relocation {
  /** The section to relocate. `offset` is the position in this section. */
  readonly section: Section;
  readonly offset: number;
  readonly type: number;
  readonly symbol: Symbol;
}

interface ObjectFile {
  readonly sections: readonly Section[];
  readonly symbols: readonly Symbol[];
  readonly relocations: readonly Relocation[];
}

const stringAt = (table: Buffer, offset: number) =>
  table.toString('latin1', offset, table.indexOf(0, offset));
const number64 = (bytes: Buffer, offset: number) => Number(bytes.readBigUInt64LE(offset));
const entries = (bytes: Buffer, size: number) =>
  Array.from({ length: Math.floor(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  );

/** @throws when the file is not a BPF object file. */
export function readObject(file: Buffer): ObjectFile {
  if (file.readUInt16LE(16) !== ELF.ET_REL || file.readUInt16LE(18) !== ELF.EM_BPF)
    throw new Error('not an object file for BPF');
  const start = number64(file, 40);
  const headers = entries(file.subarray(start, start + 64 * file.readUInt16LE(60)), 64);
  const content = (header: Buffer) => {
    const size = header.readUInt32LE(4) === ELF.SHT_NOBITS ? 0 : number64(header, 32);
    return file.subarray(number64(header, 24), number64(header, 24) + size);
  };
  const names = content(headers[file.readUInt16LE(62)]!);
  const sections = headers.map((header): Section => {
    const name = stringAt(names, header.readUInt32LE(0));
    const [type, link, info] = [
      header.readUInt32LE(4),
      header.readUInt32LE(40),
      header.readUInt32LE(44),
    ];
    return { name, type, flags: number64(header, 8), bytes: content(header), link, info };
  });
  const table = sections.find(({ type }) => type === ELF.SHT_SYMTAB);
  const symbols = entries(table?.bytes ?? Buffer.alloc(0), 24).map((entry): Symbol => {
    const name = stringAt(sections[table!.link]!.bytes, entry.readUInt32LE(0));
    // Index 0 means that the symbol is not defined in this object. Indexes from 0xff00 are special
    // values, not sections.
    const section = sections[entry.readUInt16LE(6)];
    return {
      name,
      type: entry[4]! & 15,
      global: entry[4]! >> 4 !== 0,
      section: section?.name ? section : undefined,
      value: number64(entry, 8),
    };
  });
  const relocations = sections
    .filter(({ type }) => type === ELF.SHT_REL)
    .flatMap(({ bytes, info }) =>
      entries(bytes, 16).map((entry): Relocation => {
        const symbol = symbols[entry.readUInt32LE(12)]!;
        return {
          section: sections[info]!,
          offset: number64(entry, 0),
          type: entry.readUInt32LE(8),
          symbol,
        };
      }),
    );
  return { sections, symbols, relocations };
}
