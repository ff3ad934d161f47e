console.error('This project runs its tests by "npm test": npm test -- test/domain/money.test.ts');
process.exit(1);
