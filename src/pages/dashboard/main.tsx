import { mount } from '../shared/mount.tsx';
import { DashboardPage } from './page.tsx';

void mount(() => <DashboardPage />);
